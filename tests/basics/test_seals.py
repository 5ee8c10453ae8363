"""No change of a sealed file goes unnoticed."""

import json
import tomllib
from pathlib import Path

import pytest

from tcsis.basics.seals import (
    is_sealed_toml,
    open_bytes,
    open_json,
    open_toml,
    seal_bytes,
    seal_json,
    seal_toml,
)

PATH = Path("somewhere")
TEXTS = {
    "json": (json.dumps({"β": 0.5, "x": [1, 2]}, indent=1) + "\n", seal_json, open_json),
    "toml": ("β = 0.5\n[x]\ny = 'sha256'\n", seal_toml, open_toml),
    "bytes": ("β\nsha256 0\n", lambda text: seal_bytes(text.encode()).decode(), open_bytes),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_it_comes_back(kind: str) -> None:
    text, seal, open_sealed = TEXTS[kind]
    assert open_sealed(PATH, seal(text).encode()) == text.encode()


def test_other_programs_read_it() -> None:
    text = TEXTS["json"][0]
    read = json.loads(seal_json(text))
    assert len(read.pop("sha256")) == 64
    assert read == json.loads(text)
    toml = TEXTS["toml"][0].replace("β", "b")
    assert tomllib.loads(seal_toml(toml)) == tomllib.loads(toml)


@pytest.mark.parametrize("kind", TEXTS)
def test_every_bit_and_every_length(kind: str) -> None:
    text, seal, open_sealed = TEXTS[kind]
    sealed = seal(text).encode()
    for place in range(len(sealed)):
        flips = [
            sealed[:place] + bytes([sealed[place] ^ 1 << bit]) + sealed[place + 1 :]
            for bit in range(8)
        ]
        for changed in (*flips, sealed[:place], sealed + sealed[:place] + b"\n"):
            with pytest.raises(ValueError, match=r"somewhere (has no|does not match its) checksum"):
                open_sealed(PATH, changed)


def test_a_config_of_ones_own_has_none() -> None:
    assert is_sealed_toml(seal_toml("a = 1\n").encode())
    assert not is_sealed_toml(b"a = 1\n")
