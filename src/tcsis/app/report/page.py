"""The report: one HTML page that holds all it needs and asks the network for nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from tcsis.app.report import figures, states
from tcsis.app.report.figures import Figure
from tcsis.app.report.log_weights import log_weights
from tcsis.app.results import MethodResult, Observation, Result
from tcsis.basics.files import write_whole
from tcsis.judging.findings import percent

FOLDER = Path(__file__).parent
PLOTLY = FOLDER / "plotly" / "plotly-basic.min.js"
"""plotly.js with lines, marks and bars alone, a quarter of the whole; its licence is beside it."""

CORRELATION = (
    "Two-point correlation",
    "Marks should lie on the exact line, and in the lower panel inside the band that independent "
    "draws would fill; bars are two standard errors.",
)
MAGNETISATION = (
    "Magnetisation",
    "Marks should follow the exact bars on both sides: a missing peak is a missing mode.",
)
ENERGY = (
    "Energy",
    "A shift to the right means draws that are too hot, to the left too cold.",
)
WEIGHTS = (
    "Log weights",
    "At 0 a state is drawn as often as the target has it. Left of −5 the draws leak: the target "
    "has them less than 1/150 as often, and averages without weights count them in full; forbidden "
    "states stand aside. On the right are states that the sampler gives too little: the largest of "
    "these weights decide the ESS.",
)
CALLS = ("Error against calls", "Lower left is better; a mark near its bar is as good as can be.")
SECONDS = ("Error against time", "The same against seconds, with training paid in full.")
TRAINING = (
    "Training",
    "Error should fall to its floor, dashed, and ESS rise until both are flat; the share of draws "
    "that leak, and that of the target that the model misses, should fall to 0.",
)
SCORES = (
    "Learned against exact score",
    "Each point is one move from one noised state; a perfect network stays on the line.",
)
TRACES = "Chains should cross each other at once and look alike from end to end."


@dataclass(frozen=True)
class Section:
    """A figure with its heading and a caption that says what to look for."""

    id: str
    title: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Sample:
    """States of one source, to be shown side by side."""

    name: str
    images: list[states.Image]


def write_report(result: Result, path: str | Path) -> None:
    """Write the report of a result as one self-contained file."""
    write_whole(path, render(result))


def render(result: Result) -> str:
    """The page as text."""
    drawn = [
        section(result, "correlation", CORRELATION, figures.correlation),
        section(result, "magnetisation", MAGNETISATION, figures.magnetisation),
        section(result, "energy", ENERGY, figures.energy),
        section(result, "weights", WEIGHTS, log_weights),
    ]
    made = [
        section(result, "training", TRAINING, figures.training),
        section(result, "scores", SCORES, figures.scores),
        section(result, "calls", CALLS, figures.cost_in_calls),
        section(result, "seconds", SECONDS, figures.cost_in_seconds),
        *(
            trace_section(f"traces-{i}", method)
            for i, method in enumerate(result.methods)
            if method.traces
        ),
    ]
    return (
        environment()
        .get_template("template.html.j2")
        .render(
            result=result,
            main=result.methods[0],
            drawn=[part for part in drawn if part],
            made=[part for part in made if part],
            samples=samples(result),
            film=states.film(result.film or [], result.target),
            main_error=figures.main_error,
            style=Markup((FOLDER / "style.css").read_text(encoding="utf-8")),
            script=Markup((FOLDER / "plots.js").read_text(encoding="utf-8")),
            # so that no string inside can end the script
            plotly=Markup(PLOTLY.read_text(encoding="utf-8").replace("</script", "<\\/script")),
        )
    )


def environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": number, "count": count, "data": data, "vector": vector, "ratio": ratio,
        "percent": percent, "css": css,
    }  # fmt: skip
    return made


def section(
    result: Result, id: str, words: tuple[str, str], draw: Callable[[Result], Figure | None]
) -> Section | None:
    figure = draw(result)
    return None if figure is None else Section(id, *words, figure)


def trace_section(id: str, method: MethodResult) -> Section:
    figure = figures.traces(method)
    assert figure is not None
    return Section(id, f"Chains of {method.name}", TRACES, figure)


def samples(result: Result) -> list[Sample]:
    """The states of the main method and of the others, beside exact ones."""
    truth = [] if result.exact is None else result.exact.states
    sources = [("exact draws", truth), *((m.name, m.states) for m in result.methods)]
    main = sources.pop(1)
    return [
        Sample(name, states.images(some, result.target)) for name, some in (main, *sources) if some
    ]


# -- filters -------------------------------------------------------------------------------------


def data(figure: Figure) -> Markup:
    """A figure as JSON that no string in it can break out of."""
    content = json.dumps({"data": figure.data, "layout": figure.layout}, allow_nan=False)
    return Markup(content.replace("<", "\\u003c"))


def number(value: float | None, digits: int = 3) -> str:
    """A few significant digits, or a dash."""
    return "–" if value is None else f"{value:.{digits}g}"


def count(value: float) -> str:
    """A whole number with its thousands apart, or three digits of millions."""
    return f"{value:,.0f}" if value < 1e6 else f"{value / 1e6:,.3g} million"


def vector(values: list[float] | None) -> str:
    return "–" if values is None else "  ".join(f"{value:.4f}" for value in values)


def css(level: str) -> str:
    """A level of a verdict as a class of the style sheet."""
    return level.replace(" ", "-")


def ratio(row: Observation | None) -> str:
    """The error of a row in floors."""
    if row is None or row.error is None or not row.floor:
        return "–"
    return f"{row.error / row.floor:.1f}"
