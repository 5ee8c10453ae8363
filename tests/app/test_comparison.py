"""Several methods on one target: names, budgets, tables, reports."""

from pathlib import Path

import pytest
import torch

import tcsis
from tcsis import Draws
from tcsis.app.methods import Plan, Spent, affordable

TARGET = tcsis.targets.Ising(side=3, beta=0.4)


def test_ready_draws_and_models() -> None:
    model = tcsis.train(TARGET, preset="tiny", steps=5, progress=False)
    truth = tcsis.exact.draw(TARGET, 500, seed=3)
    found = tcsis.compare(TARGET, [("mine", truth), ("model", model)], n=300, progress=False)
    assert list(found.methods) == ["mine", "model"]
    assert found.methods["mine"] is truth
    assert len(found.methods["model"]) == 300
    assert found.models == {"model": model}
    assert found.result.film
    assert found.result.methods[1].training_seconds == model.seconds


def test_every_kind_of_method_spends_the_same() -> None:
    names = ["gibbs", "glauber", "learning-free", "population-annealing", "exact"]
    found = tcsis.compare(TARGET, names, n=200, equal="densities", progress=False)
    budget = found.methods["gibbs"].num_density_calls
    for name in ("glauber", "population-annealing"):
        assert found.methods[name].num_density_calls == pytest.approx(budget, rel=0.1)
        assert found.methods[name].x.flatten(0, -2).shape == (200, 9)


def test_a_learned_method_after_the_first_keeps_to_its_seconds() -> None:
    found = tcsis.compare(TARGET, ["gibbs", "tcsis"], n=200, preset="tiny", progress=False)
    spent = found.result.methods[1].training_seconds
    assert spent < found.methods["gibbs"].seconds + 2


@pytest.mark.parametrize("equal", ["seconds", "densities"])
def test_affordable_inverts_the_price(equal: str) -> None:
    """A price of 2 for every step after a fixed 10."""

    def run(amount: int) -> Draws:
        cost = 10.0 + 2.0 * amount
        return Draws(torch.zeros(1, 1), seconds=cost, num_density_calls=cost)

    plan = Plan(TARGET, 10, 0, equal, False, {})
    assert affordable(plan, Spent(110.0, 110.0), run) == 50
    assert affordable(plan, Spent(1.0, 1.0), run) == 1


def test_tables_and_reports(tmp_path: Path) -> None:
    draws = tcsis.exact.draw(TARGET, 500, seed=0)
    found = tcsis.compare(TARGET, [("<b>mine</b>", draws)], progress=False)
    assert "log Z" in str(found)
    assert "&lt;b&gt;mine" in found._repr_html_()
    assert "<b>mine" not in found._repr_html_()
    found.report(tmp_path / "new" / "a.html")
    assert "<title>" in (tmp_path / "new" / "a.html").read_text()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.html"]


def test_draws_as_html() -> None:
    shown = tcsis.exact.draw(TARGET, 500, seed=0)._repr_html_()
    assert "<td>500</td>" in shown
    assert "log Z" in shown
    chains = Draws(torch.zeros(4, 25, 9, dtype=torch.uint8))
    assert "<td>4 × 25</td>" in chains._repr_html_()


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        ([], "empty"),
        (["gwgg"], "did you mean gwg"),
        (["gibbs", "gibbs"], "twice"),
        ([("mine", 3)], "expected Draws"),
        ([3], "expected a name"),
    ],
)
def test_refusals(methods: list, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        tcsis.compare(TARGET, methods, progress=False)


def test_refuses_other_costs() -> None:
    with pytest.raises(ValueError, match="equal is 'money'"):
        tcsis.compare(TARGET, ["gibbs"], equal="money", progress=False)
