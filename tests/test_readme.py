"""The Python of README and guides runs as it stands, and their command lines parse."""

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from tcsis.app.cli.app import app

ROOT = Path(__file__).parents[1]
GUIDES = (
    "tutorial.md",
    "your-own-density.md",
    "factors.md",
    "formats.md",
    "exact.md",
    "evidence.md",
    "report.md",
    "choosing.md",
    "interchange.md",
    "clusters.md",
    "torchrun.md",
    "million.md",
    "ranges.md",
)
PAGES = [ROOT / "README.md", *(ROOT / "docs" / name for name in GUIDES)]
EXPECTED = {
    "README.md": ["15.5222", "exact by enumeration", "as they come, "],
    "tutorial.md": ["15.5222", "torch.Size([5000, 16])", "8.0", "autoregressive", "glauber"],
    "your-own-density.md": [],
    "factors.md": ["elimination", "log P(evidence) = -", "(3, 2, 2)"],
    "formats.md": ["('a', 'b', 'c')", "True", "120 ways", "bad.cnf, line 3: a literal is '7'"],
    "exact.md": ["kac-ward", "torch.Size([760])", "exact by kac-ward"],
    "evidence.md": ["trusted", "log P(evidence) = -"],
    "report.md": [
        "trusted by weight. Only with",
        "of the draws leak",
        "failed",
        "about 1 of 2 equal modes",
    ],
    "choosing.md": [],
    "interchange.md": ["trusted\nfailed", "the model agrees", "'draw', 'site') 1", "exact, by"],
    "clusters.md": ["| ising | 0 |", "torch.Size([3, 9]) []"],
    "torchrun.md": [],
    "million.md": ["2500\n<xarray.DataArray 'x'"],
    "ranges.md": ["Ising(side=3, beta=0.37) 0.0\n", "trusted", "\n0.0\n"],
}
WRITTEN = {
    "README.md": ["report.html"],
    "tutorial.md": ["ising.html", "compare.html", "ising-model"],
    "your-own-density.md": ["ring.html"],
    "factors.md": [],
    "formats.md": ["petersen.gset"],
    "exact.md": [],
    "evidence.md": [],
    "report.md": [],
    "choosing.md": [],
    "interchange.md": ["draws.nc"],
    "clusters.md": [],
    "torchrun.md": [],
    "million.md": ["many.nc"],
    "ranges.md": [],
}


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def command_lines() -> list[str]:
    """Every ``tcsis`` command in a shell block, of all guides."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    text = "\n".join(block for page in pages for block in blocks(page, "sh"))
    lines = text.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.startswith("tcsis ")]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = blocks(page, "python")
    assert found
    namespace: dict[str, object] = {}
    for block in found:
        exec(compile(block, str(page), "exec"), namespace)  # one after the other, as read
    printed = capsys.readouterr().out
    for text in EXPECTED[page.name]:
        assert text in printed
    for name in WRITTEN[page.name]:
        assert (tmp_path / name).exists()


@pytest.mark.parametrize("line", command_lines())
def test_command_lines_parse(line: str) -> None:
    group = get_command(app)
    name, *arguments = shlex.split(line, comments=True)[1:]
    command = group.commands[name]
    command.make_context(name, arguments)  # which raises on what it does not know


def test_command_lines_are_found() -> None:
    assert len(command_lines()) > 10


def test_the_parser_refuses_unknown_options() -> None:
    command = get_command(app).commands["train"]
    with pytest.raises(Exception, match="--sides"):
        command.make_context("train", ["ising", "--sides", "4"])
