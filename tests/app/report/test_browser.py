"""The report in a real browser: drawn, quiet, legible, and deaf to names that are code."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tcsis.app.report import write_report
from tcsis.app.results import Result

CHROMIUM = shutil.which("chromium")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
MARKS = (
    ".scatterlayer .point, .scatterlayer .js-line, .barlayer .point path, .scatterlayer .js-fill"
)
LUMINANCE = """(name) => {
    const [r, g, b] = getComputedStyle(document.body)[name].match(/[\\d.]+/g).map(Number);
    const linear = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
}"""

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="BROWSER TESTS SKIPPED: pip install playwright"
)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None,
    reason="BROWSER TESTS SKIPPED: no chromium; get it with `apt-get install chromium`",
)


@pytest.fixture(scope="module")
def browser() -> Iterator:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def report(result: Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(result, path)
    return path


class Visit:
    """A page and all that it said and asked for."""

    def __init__(self, browser, path: Path, **options) -> None:
        self.complaints, self.requests, self.dialogs = [], [], []
        self.page = browser.new_page(**options)
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", self.refuse)
        self.page.goto(path.as_uri())
        sync_api.expect(self.page.locator(".plot:not(:has(svg))")).to_have_count(0)

    def refuse(self, dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def contrast(self) -> float:
        """Of the text against the page."""
        ink = self.page.evaluate(LUMINANCE, "color")
        page = self.page.evaluate(LUMINANCE, "backgroundColor")
        return (max(ink, page) + 0.05) / (min(ink, page) + 0.05)


def test_all_is_drawn_and_nothing_leaves(browser, report: Path, result: Result) -> None:
    visit = Visit(browser, report, viewport={"width": 1100, "height": 900}, color_scheme="light")
    page = visit.page
    assert visit.complaints == []
    assert all(url.startswith(("file:", "data:", "blob:")) for url in visit.requests)
    plots = page.locator(".plot")
    names = {plots.nth(i).get_attribute("id") for i in range(plots.count())}
    drawn = (
        "correlation",
        "magnetisation",
        "energy",
        "weights",
        "training",
        "scores",
        "calls",
        "seconds",
    )
    assert names == {f"plot-{name}" for name in (*drawn, "traces-2")}
    for name in names:
        assert page.locator(f"#{name}").locator(MARKS).count() >= 3, name
    assert page.locator("#plot-scores .point").count() == len(result.scores.exact)
    assert page.locator(".state").count() == 4 * 16 + 8
    verdict = page.locator("#verdict")
    assert verdict.is_visible()
    assert verdict.bounding_box()["y"] < 400
    assert verdict.inner_text().split("\n")[0] == result.methods[0].verdict.level
    assert result.methods[0].verdict.why in verdict.inner_text()
    page.close()


def test_dark_follows_the_system(browser, report: Path) -> None:
    visit = Visit(browser, report, color_scheme="light")
    page = visit.page
    tick = page.locator("#plot-energy .xtick text").first
    light = page.evaluate(LUMINANCE, "backgroundColor")
    light_tick = tick.evaluate("(text) => getComputedStyle(text).fill")
    assert visit.contrast() > 7
    page.emulate_media(color_scheme="dark")
    sync_api.expect(tick).not_to_have_css("fill", light_tick)
    assert page.evaluate(LUMINANCE, "backgroundColor") < 0.05 < light
    assert visit.contrast() > 7
    assert visit.complaints == []
    page.close()


def test_print_is_light(browser, report: Path) -> None:
    visit = Visit(browser, report, color_scheme="dark")
    visit.page.emulate_media(media="print", color_scheme="dark")
    visit.page.locator("html[data-print]").wait_for(state="attached")
    assert visit.page.evaluate(LUMINANCE, "backgroundColor") > 0.9
    assert visit.contrast() > 7
    assert len(visit.page.pdf(format="A4")) > 50_000
    assert visit.complaints == []
    visit.page.close()


def test_names_stay_inert(browser, report: Path, result: Result) -> None:
    visit = Visit(browser, report)
    assert visit.dialogs == []
    assert result.methods[0].name in visit.page.locator(".kicker").inner_text()
    assert result.commands[0] in visit.page.locator("pre").first.inner_text()
    assert visit.page.locator("script").count() == 2 + visit.page.locator(".plot").count()
    visit.page.locator("#plot-energy .point").first.hover(force=True)
    assert visit.dialogs == []
    visit.page.close()


def test_a_phone_shows_it_without_scrolling_sideways(browser, report: Path) -> None:
    visit = Visit(browser, report, viewport={"width": 390, "height": 844}, is_mobile=True)
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert visit.page.locator("#plot-correlation svg").first.bounding_box()["width"] <= 390
    assert visit.complaints == []
    visit.page.close()
