"""The page leaves out what it has no data for, and holds only safe text."""

import json
import math
import re
from pathlib import Path

import plotly.graph_objects
import pytest
import torch

import tcsis
from tcsis.app.report import figures, write_report
from tcsis.app.report.log_weights import log_weights
from tcsis.app.report.page import data, render
from tcsis.app.report.states import film, images
from tcsis.app.results import Frame, Result
from tcsis.app.summaries import compare_results
from tcsis.targets import Ising, Potts, SpinGlass, from_callable


def headings(page: str) -> list[str]:
    return re.findall(r'<h2 id="([\w-]+)"', page)


def ring(x: torch.Tensor) -> torch.Tensor:
    return (x != x.roll(1, -1)).double().sum(-1)


def test_everything_is_there(result: Result) -> None:
    assert headings(render(result)) == [
        "methods", "correlation", "magnetisation", "energy", "weights", "samples", "film",
        "training", "scores", "calls", "seconds", "traces-2", "tables", "commands", "config",
        "environment",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (from_callable(ring, 6, 3), ["energy", "samples", "tables"]),
        (SpinGlass(16, 1.0), ["correlation", "magnetisation", "energy", "samples", "tables"]),
        (Potts((2, 3), 4, 0.5), ["correlation", "energy", "samples", "tables"]),
        (Ising((2, 2, 3), 0.2), ["correlation", "magnetisation", "energy", "samples", "tables"]),
    ],
    ids=repr,
)
def test_sections_without_data_are_left_out(target, expected) -> None:
    x = torch.randint(target.num_values, (60, target.num_sites)).to(torch.uint8)
    result = compare_results(target, {"noise": tcsis.Draws(x, seconds=1.0)})
    assert headings(render(result)) == expected


def test_the_page_holds_all_it_needs(result: Result, tmp_path: Path) -> None:
    write_report(result, tmp_path / "new" / "report.html")
    page = (tmp_path / "new" / "report.html").read_text()
    own = page.replace(re.search(r"<script>.{1000000,}?</script>", page, re.S)[0], "")
    assert "http" not in own.replace("http-equiv", "")
    assert not re.search(r'(src|href)="(?!data:)', own)
    assert "<script>alert" not in own
    assert page.count("plotly.js (basic - minified) v") == 1
    assert len(page.encode()) < 2_000_000
    assert "Content-Security-Policy" in own


def test_plotly_takes_every_figure(result: Result) -> None:
    drawn = [
        figures.correlation, figures.magnetisation, figures.energy, log_weights, figures.training,
        figures.scores, figures.cost_in_calls, figures.cost_in_seconds,
    ]  # fmt: skip
    made = [draw(result) for draw in drawn] + [figures.traces(result.methods[2])]
    for figure in made:
        plotly.graph_objects.Figure(data=figure.data, layout=figure.layout)
        assert "<" not in data(figure)
        assert json.loads(data(figure))["data"] == figure.data


def test_log_axes_have_numbers_in_full(result: Result) -> None:
    axis = figures.log_axis("error", [0.0021, 0.15])
    assert axis["ticktext"] == ["0.002", "0.005", "0.01", "0.02", "0.05", "0.1", "0.2"]
    assert 10 ** axis["range"][0] < 0.0021 < 0.15 < 10 ** axis["range"][1]
    assert figures.log_axis("calls", [3e3, 4e7])["ticktext"] == [
        "10,000", "100,000", "10<sup>6</sup>", "10<sup>7</sup>",
    ]  # fmt: skip
    assert figures.log_axis("error", [0.0316])["tickvals"]  # between two ticks that are far apart
    for draw in (figures.training, figures.cost_in_calls, figures.cost_in_seconds):
        axes = [a for name, a in draw(result).layout.items() if "axis" in name]
        assert all(len(a["tickvals"]) > 1 for a in axes if a.get("type") == "log")


def test_the_floor_is_drawn_in_the_training_panel(result: Result) -> None:
    figure = figures.training(result)
    (floor,) = [part for part in figure.data if part["name"] == "floor"]
    (error,) = [part for part in figure.data if part["name"] == "error"]
    assert set(floor["y"]) == {0.04}
    assert floor["yaxis"] == error["yaxis"] and floor["line"]["dash"] == "dash"
    unknown = result.model_copy(
        update={"history": [p.model_copy(update={"floor": None}) for p in result.history]}
    )
    assert "floor" not in [part["name"] for part in figures.training(unknown).data]


def test_both_answers_are_shown() -> None:
    """A sampler that draws forbidden states, with right weights: a badge for each answer, and a bar
    aside for what is forbidden."""
    target = from_callable(lambda x: torch.where(x.sum(-1) > 0, 0.0, -torch.inf), 5, 2)
    x = torch.randint(2, (4_000, 5), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    draws = tcsis.Draws(x, target.log_density(x).double() + 5 * math.log(2))
    result = compare_results(target, {"uniform": draws})
    page = render(result)
    assert '<div class="verdict trusted-by-weight" id="verdict">' in page
    assert '<li>as they come <span class="badge failed">failed</span></li>' in page
    assert '<li>with their weights <span class="badge trusted">trusted</span></li>' in page
    figure = log_weights(result)
    share = float((x.sum(-1) == 0).double().mean())
    assert figure.data[0]["y"][0] == pytest.approx(share)
    assert figure.layout["xaxis"]["ticktext"][0] == "forbidden"
    assert figure.keys[0].label.endswith("% forbidden included")


def test_tails_are_shaded_where_the_axis_reaches_them() -> None:
    target = Ising(4, 0.4407)
    x = tcsis.exact.draw(target, 2_000).x
    log_weight = torch.zeros(2_000).double()
    log_weight[:20] = -9
    figure = log_weights(compare_results(target, {"leaky": tcsis.Draws(x, log_weight)}))
    assert [note["text"] for note in figure.layout["annotations"]] == ["← leak"]
    assert figure.layout["shapes"][0]["x1"] == -5
    assert figure.keys[0].label == "leaky: 1% leak"


def test_states_become_cells(result: Result) -> None:
    target = result.target.model_copy(update={"shape": [2, 2], "num_sites": 4})
    (image,) = images([[0, 1, 1, 1]], target)
    assert (image.rows, image.columns) == (2, 2)
    assert image.paths == [
        ("M0 0h1v1h-1z", "var(--v0)"),
        ("M1 0h1v1h-1zM0 1h2v1h-2z", "var(--v1)"),
    ]
    (barcode,) = images([[0, 1, 1, 1], [1, 0, 0, 0]], target.model_copy(update={"shape": None}))
    assert (barcode.rows, barcode.columns) == (2, 4)


def test_sites_that_are_noise_are_veiled(result: Result) -> None:
    target = result.target.model_copy(update={"shape": [2, 2], "num_sites": 4})
    frames = [Frame(times=[1.0, 1.0, 0.0, 1.0], tokens=[0, 1, 1, 0])]
    (image,) = film(frames, target)
    assert image.paths[-1] == ("M0 0h2v1h-2zM1 1h1v1h-1z", "var(--veil)")
    assert image.caption == "1 of 4"
