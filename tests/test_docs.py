"""The documentation builds without a warning, and its pages ask the network for nothing."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs")
pytest.importorskip("material")
pytest.importorskip("mkdocstrings")

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_every_page_is_there(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        place = page.relative_to(ROOT / "docs").with_suffix("")
        built = site / ("." if place.name == "index" else place) / "index.html"
        assert built.is_file(), f"{page} is not in the site"


def test_the_reference_has_every_public_function(site: Path) -> None:
    text = (site / "api" / "index.html").read_text()
    for name in (
        "learn.trainer.train", "judging.verdict.judge", "app.comparison.compare",
        "draws.Draws.log_z",
    ):  # fmt: skip
        assert f'id="tcsis.{name}"' in text


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    loads = re.compile(
        r"<(?:script|img|iframe|link rel=\"?(?:stylesheet|preconnect)\"?)[^>]*https?:"
    )
    for page in site.rglob("*.html"):
        assert not loads.search(page.read_text()), f"{page.relative_to(site)} loads from elsewhere"
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(\s*[\"']?https?:", style.read_text())
