"""Checkpoints come back as they were, survive a kill at any moment, and damage is noticed."""

import hashlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from tcsis.learn import checkpoint
from tcsis.learn.checkpoint import CheckpointError, exists, load, save

DATA = {
    "step": 7,
    "rate": 1e-05,
    "nested": {"list": [1, 2.5, True, None, "β"], "empty": {}},
    "big": 2**70,
}
NAMES = ["tensors.safetensors", "data.json"]

forking = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
quiet_fork = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def some_tensors() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(4, 5, generator=generator)
    return {
        "float32": noise,
        "float64": noise.double() / 3,
        "int64": torch.arange(7) * 2**50,
        "uint8": torch.arange(256).byte(),
        "bool": noise > 0,
        "scalar": torch.tensor(float("nan")),
        "empty": torch.zeros(0, 3),
        "transposed": noise.T,
        "view of the same memory": noise[1:3],
        "parameter": torch.nn.Parameter(noise + 1),
        "generator": generator.get_state(),
    }


def check_refused(folder: Path, message: str) -> None:
    with pytest.raises(CheckpointError, match=message) as caught:
        load(folder)
    assert "\n" not in str(caught.value)


# -- round trips -----------------------------------------------------------------------------


def test_round_trip(tmp_path: Path) -> None:
    tensors = some_tensors()
    path = save(tmp_path / "a" / "b", tensors, DATA)
    assert path == tmp_path / "a" / "b" / "checkpoint-1"
    for folder in (path, path.parent, str(path.parent)):
        loaded, data = load(folder)
        assert data == DATA
        assert loaded.keys() == tensors.keys()
        for name, tensor in tensors.items():
            torch.testing.assert_close(
                loaded[name], tensor.detach(), rtol=0, atol=0, equal_nan=True
            )
            loaded[name].fill_(0)  # writable, and its own memory


def test_nothing_is_a_checkpoint_too(tmp_path: Path) -> None:
    save(tmp_path, {}, {})
    assert load(tmp_path) == ({}, {})


def test_only_the_newest_stays(tmp_path: Path) -> None:
    (tmp_path / ".tmp-left").mkdir(parents=True)
    (tmp_path / "notes").mkdir()
    for step in range(12):  # past nine, where names no longer sort as numbers do
        save(tmp_path, {"x": torch.tensor(step)}, {"step": step})
        assert load(tmp_path) == ({"x": torch.tensor(step)}, {"step": step})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-12", "notes"]


def test_exists(tmp_path: Path) -> None:
    assert not exists(tmp_path / "nowhere")
    assert not exists(tmp_path)
    (tmp_path / ".tmp-left").mkdir()
    assert not exists(tmp_path)
    check_refused(tmp_path, "^no checkpoint in ")
    check_refused(tmp_path / "nowhere", "^no checkpoint in ")
    path = save(tmp_path, {}, {})
    assert exists(tmp_path)
    assert exists(path)


def test_tuples_come_back_as_lists(tmp_path: Path) -> None:
    save(tmp_path, {}, {"side": (4, 6)})
    assert load(tmp_path)[1] == {"side": [4, 6]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"loss": float("inf")}, r"data\['loss'\] is inf: expected a finite number"),
        ({"a": [0.0, float("nan")]}, r"data\['a'\]\[1\] is nan"),
        ({"a": {1: 2}}, r"data\['a'\] has the key 1: expected strings"),
        ({"a": torch.zeros(2)}, r"data\['a'\] is a Tensor: expected"),
        ({"a": {1, 2}}, r"data\['a'\] is a set"),
    ],
)
def test_data_that_json_would_change(tmp_path: Path, data: dict, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        save(tmp_path, {}, data)
    assert not exists(tmp_path)


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("x", [1.0], "tensor x is a list: expected a Tensor"),
        ("x", torch.eye(2).to_sparse(), "tensor x has layout torch.sparse_coo"),
        ("x", torch.zeros(1, dtype=torch.complex128), "expected a dense real tensor"),
        ("__metadata__", torch.zeros(1), "tensor name is '__metadata__'"),
    ],
)
def test_tensors_that_cannot_be_stored(
    tmp_path: Path, name: str, tensor: Any, message: str
) -> None:
    with pytest.raises(CheckpointError, match=message):
        save(tmp_path, {name: tensor}, {})


# -- damage ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_flipped_bits(tmp_path: Path, name: str) -> None:
    """Every seventh bit of data.json and of the header, every 97th of the tensors, the last."""
    path = save(tmp_path, {"x": torch.arange(300.0)}, DATA) / name
    whole = path.read_bytes()
    bits = range(8 * len(whole))
    for bit in bits[::7] if name == "data.json" else [*bits[:800:7], *bits[800::97], bits[-1]]:
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        check_refused(tmp_path, r"tensors\.safetensors|data\.json")
    path.write_bytes(whole)
    assert load(tmp_path)[1] == DATA


@pytest.mark.parametrize("name", NAMES)
def test_truncated_files(tmp_path: Path, name: str) -> None:
    path = save(tmp_path, some_tensors(), DATA) / name
    whole = path.read_bytes()
    for length in (0, 1, 7, 8, 9, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        check_refused(tmp_path, name)
    path.write_bytes(whole + b" ")
    check_refused(tmp_path, f"{name} does not match its checksum")


@pytest.mark.parametrize("name", NAMES)
def test_missing_and_unreadable_files(tmp_path: Path, name: str) -> None:
    path = save(tmp_path, some_tensors(), DATA) / name
    path.unlink()
    check_refused(tmp_path, f"{name} is missing")
    path.mkdir()
    check_refused(tmp_path, f"{name} cannot be read")


def test_foreign_tensors(tmp_path: Path) -> None:
    path = save(tmp_path, some_tensors(), DATA)
    safetensors.torch.save_file({"x": torch.zeros(3)}, path / "tensors.safetensors")
    check_refused(tmp_path, "tensors.safetensors does not match its checksum")


def test_no_older_checkpoint_is_taken_for_a_damaged_one(tmp_path: Path) -> None:
    first = save(tmp_path, {}, {"step": 1}).rename(tmp_path / "kept")
    second = save(tmp_path, {}, {"step": 2}).rename(tmp_path / "checkpoint-2")
    first.rename(tmp_path / "checkpoint-1")
    (second / "data.json").write_bytes(b"")
    check_refused(tmp_path, "checkpoint-2/data.json")
    save(tmp_path, {}, {"step": 3})
    assert load(tmp_path / "checkpoint-3")[1] == {"step": 3}


def rewrite(path: Path, change: Callable[[dict], Any]) -> None:
    document = json.loads(path.read_bytes())
    change(document)
    path.write_bytes(checkpoint.encode(document))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(version=2), r"newer tcsis \(format 2\): expected at most 1; upgrade"),
        (lambda d: d.update(version=0), "has the version 0"),
        (lambda d: d.update(version=True), "has the version True"),
        (lambda d: d.pop("version"), "has the version None"),
        (lambda d: d.update(format="other"), "does not have the format tcsis-checkpoint"),
        (lambda d: d.pop("data_sha256"), "does not have the keys format"),
        (lambda d: d.update(data=[]), "does not have the keys format"),
        (lambda d: d["data"].update(step=8), "data.json does not match its checksum"),
        (lambda d: d["data"].update(step=float("nan")), "data.json does not match its checksum"),
        (lambda d: d.update(tensors_sha256=[]), "tensors.safetensors does not match"),
    ],
)
def test_wrong_documents(tmp_path: Path, change: Callable[[dict], Any], message: str) -> None:
    rewrite(save(tmp_path, {}, DATA) / "data.json", change)
    check_refused(tmp_path, message)


@pytest.mark.parametrize("content", [b"no JSON", b"\xff\xfe", b"[]", b"null", b"[" * 10**5])
def test_garbage_for_data(tmp_path: Path, content: bytes) -> None:
    (save(tmp_path, {}, DATA) / "data.json").write_bytes(content)
    check_refused(tmp_path, "data.json (is not valid JSON|does not have the format)")


HEADER = b'{"x":{"dtype":"%s","shape":[%d],"data_offsets":[0,4]}}'


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 64,
        (2**40).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"{]",
        *(
            len(header).to_bytes(8, "little") + header + bytes(4)
            for header in (HEADER % (b"F32", 2), HEADER % (b"F99", 1), HEADER % (b"F4", 8))
        ),
    ],
)
def test_garbage_for_tensors_with_the_right_checksum(tmp_path: Path, content: bytes) -> None:
    path = save(tmp_path, {}, DATA)
    (path / "tensors.safetensors").write_bytes(content)
    sha256 = hashlib.sha256(content).hexdigest()
    rewrite(path / "data.json", lambda d: d.update(tensors_sha256=sha256))
    check_refused(tmp_path, "tensors.safetensors is not a safetensors file")


# -- crashes ---------------------------------------------------------------------------------


def save_step(folder: Path, step: int) -> None:
    """A checkpoint whose every part tells its step."""
    save(folder, {"x": torch.full((20_000,), step), "y": torch.tensor(step)}, {"step": step})


def load_step(folder: Path) -> int:
    tensors, data = load(folder)
    assert bool((tensors["x"] == data["step"]).all())
    assert tensors["y"] == data["step"]
    return data["step"]


def fork(work: Callable[[], Any]) -> int:
    """Run ``work`` in a forked child and return its process number."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return child


def save_forever(folder: Path, step: int) -> None:
    while True:
        save_step(folder, step)
        step += 1


@forking
@quiet_fork
def test_killed_at_random_moments(tmp_path: Path) -> None:
    moments = random.Random(0)
    save_step(tmp_path, 0)
    for _ in range(20):
        before = load_step(tmp_path)
        child = fork(partial(save_forever, tmp_path, before + 1))
        time.sleep(moments.uniform(0, 0.06))
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL  # it was still at work
        after = load_step(tmp_path)
        assert after >= before
        save_step(tmp_path, after + 1)
        assert len(list(tmp_path.iterdir())) == 1
    assert load_step(tmp_path) > 20  # the children got some saving done


def save_and_die(folder: Path, step: int, operation: int) -> None:
    """Save, and be killed just before the given operation on files, counted from zero."""
    count = 0

    def hook(event: str, _: Any) -> None:
        nonlocal count
        if event == "open" or event.startswith(("os.", "shutil.")):
            count += 1
            if count == operation + 1:  # once, as the kill itself is such an event
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    save_step(folder, step)


@forking
@quiet_fork
def test_killed_at_every_file_operation(tmp_path: Path) -> None:
    """The same, but at each opening, renaming, making and removing that one save does."""
    save_step(tmp_path, 0)
    saved = []
    for operation in range(200):
        status = os.waitpid(fork(partial(save_and_die, tmp_path, 1, operation)), 0)[1]
        saved.append(load_step(tmp_path) == 1)
        if status == 0:
            break
        assert status == signal.SIGKILL
        save_step(tmp_path, 0)
        assert len(list(tmp_path.iterdir())) == 1
    else:
        pytest.fail("a save does more than 200 operations")
    # early deaths leave the old checkpoint and late ones the new one, with one change between
    assert saved == sorted(saved)
    assert saved.count(False) > 5
    assert saved.count(True) > 5
