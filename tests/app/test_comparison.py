"""Several methods on one target: names, budgets, tables, reports."""

from pathlib import Path

import pytest
import torch

import tcsis
from tcsis import Draws
from tcsis.app.methods import Plan, Spent, affordable
from tcsis.learn import checkpoint
from tcsis.peers import leaps, van
from tcsis.peers.leaps import LeapsConfig

TARGET = tcsis.targets.Ising(side=3, beta=0.4)
LEAPS = LeapsConfig(num_walkers=64, num_evaluations=0)


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


def test_any_sampler_is_compared() -> None:
    """Whatever has ``sample(n, seed=...)``, with the draws that it gives by itself."""
    model = leaps.train(TARGET, config=LEAPS, steps=3, progress=False)
    samplers = {
        "a peer": model,
        "without learning": tcsis.learning_free(TARGET, num_rungs=20),
        "truth": tcsis.exact.sampler(TARGET),
        "chains": tcsis.mcmc.ChainSampler(TARGET, "glauber", num_chains=20, burn_in=10, thin=2),
    }
    found = tcsis.compare(TARGET, list(samplers.items()), n=100, seed=3, progress=False)
    assert [method.name for method in found.result.methods] == list(samplers)
    assert found.models == {"a peer": model}
    assert found.result.film is None  # pictures of training are of this library's models
    for name, sampler in samplers.items():
        assert torch.equal(found.methods[name].x, sampler.sample(100, seed=3).x)
    assert found.methods["chains"].x.shape == (20, 5, 9)
    shown = {method.name: method for method in found.result.methods}
    assert shown["a peer"].training_seconds == model.seconds > 0
    assert shown["a peer"].num_density_calls == pytest.approx(
        model.num_density_calls + found.methods["a peer"].num_density_calls
    )
    assert shown["chains"].training_seconds == 0
    assert shown["chains"].n == 100


def test_a_sampler_of_the_users_own() -> None:
    class Coins:
        def sample(self, n: int, *, seed: int = 0) -> Draws:
            generator = torch.Generator().manual_seed(seed)
            return Draws(torch.randint(2, (n, 9), generator=generator).byte())

    found = tcsis.compare(TARGET, ["exact", ("coins", Coins())], n=50, seed=2, progress=False)
    assert torch.equal(found.methods["coins"].x, Coins().sample(50, seed=2).x)


def test_a_config_is_for_the_method_of_its_kind() -> None:
    config = tcsis.presets.tiny(TARGET, "self-normalized").changed(num_steps=3)
    names = ["autoregressive", "self-normalized"]
    found = tcsis.compare(TARGET, names, n=50, preset="tiny", config=config, progress=False)
    assert found.models["self-normalized"].config == config
    assert found.models["autoregressive"].config == tcsis.presets.tiny(TARGET)


def test_only_the_first_learned_method_is_kept(tmp_path: Path) -> None:
    names = ["exact", "self-normalized", "autoregressive"]
    options = {"n": 50, "preset": "tiny", "equal": "densities", "progress": False}
    found = tcsis.compare(TARGET, names, steps=3, folder=tmp_path, **options)
    assert found.models.keys() == {"self-normalized", "autoregressive"}
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoint", "metrics.jsonl"}
    kept = tcsis.load(tmp_path / "checkpoint")
    assert kept.config == found.models["self-normalized"].config
    assert torch.equal(kept.sample(20).x, found.models["self-normalized"].sample(20).x)
    again = tcsis.compare(TARGET, names, steps=5, folder=tmp_path, resume=True, **options)
    assert checkpoint.load(tmp_path / "checkpoint")[1]["step"] == 5
    assert again.models["self-normalized"].config.num_steps == 5


def test_a_sampler_without_a_name_goes_by_its_kind_and_tells_its_cost() -> None:
    model = tcsis.train(TARGET, preset="tiny", steps=2, progress=False)

    class Bought:
        seconds, num_density_calls = 100.0, 7e6

        def sample(self, n: int, *, seed: int = 0) -> Draws:
            return tcsis.exact.draw(TARGET, n, seed)

    found = tcsis.compare(TARGET, [model, Bought()], n=50, progress=False).result.methods
    assert [method.name for method in found] == ["autoregressive", "Bought"]
    assert (found[1].training_seconds, found[1].num_density_calls) == (100.0, 7e6)


def test_what_is_for_training_needs_something_to_train() -> None:
    told = {"preset": "tiny", "steps": 3, "time_budget": 1.0, "resume": True}
    with pytest.raises(ValueError, match="leave out preset, steps, time_budget, resume"):
        tcsis.compare(TARGET, ["gibbs"], n=50, **told)


def test_every_kind_of_method_spends_the_same() -> None:
    names = ["gibbs", "glauber", "learning-free", "population-annealing", "exact"]
    found = tcsis.compare(TARGET, names, n=200, equal="densities", progress=False)
    budget = found.methods["gibbs"].num_density_calls
    for name in ("glauber", "population-annealing"):
        assert found.methods[name].num_density_calls == pytest.approx(budget, rel=0.1)
        assert found.methods[name].x.flatten(0, -2).shape == (200, 9)


def test_a_learned_method_after_the_first_keeps_to_its_seconds() -> None:
    found = tcsis.compare(TARGET, ["gibbs", "autoregressive"], n=200, preset="tiny", progress=False)
    spent = found.result.methods[1].training_seconds
    assert spent < found.methods["gibbs"].seconds + 2


@pytest.mark.parametrize("equal", ["seconds", "densities"])
def test_affordable_inverts_the_price(equal: str) -> None:
    """A price of 2 for every step after a fixed 10."""

    def run(amount: int) -> Draws:
        cost = 10.0 + 2.0 * amount
        return Draws(torch.zeros(1, 1), seconds=cost, num_density_calls=cost)

    plan = Plan(TARGET, 10, 0, equal, False)
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
        (["tcsis"], "expected one of autoregressive, any-time, self-normalized, unbiased, leaps"),
        ([("mine", 3)], "method mine is a int: expected a name, a sampler with sample"),
        ([("mine", tcsis.mcmc.ChainSampler)], "method mine is a type: expected a name"),
        ([("mine", TARGET)], "method mine is a Ising: expected a name"),
        ([("mine", TARGET, 3)], "method tuple is a tuple: expected a name, a sampler"),
        ([3], "expected a name"),
    ],
)
def test_refusals(methods: list, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        tcsis.compare(TARGET, methods, progress=False)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "methods", [["gibbs"], ["unbiased"], [("autoregressive", tcsis.exact.sampler(TARGET))]]
)
def test_refuses_a_config_that_nothing_reads(methods: list) -> None:
    config = tcsis.presets.tiny(TARGET)
    with pytest.raises(ValueError, match="config is one of the method autoregressive") as caught:
        tcsis.compare(TARGET, methods, config=config, progress=False)
    assert "\n" not in str(caught.value)


def test_refuses_other_costs() -> None:
    with pytest.raises(ValueError, match="equal is 'money'"):
        tcsis.compare(TARGET, ["gibbs"], equal="money", progress=False)


def test_too_cheap_a_reference_is_exceeded_and_said(capfd: pytest.CaptureFixture[str]) -> None:
    """Chains of a moment pay for no training: it has what it needs, unless the user says less."""
    names = [("cheap", Draws(torch.zeros(5, 9, dtype=torch.uint8), seconds=1e-4)), "autoregressive"]
    told = {"n": 50, "preset": "tiny", "steps": 30, "progress": False}
    found = tcsis.compare(TARGET, names, **told)
    assert found.models["autoregressive"].steps >= 20
    assert "more than the first method took, and that is what it has" in capfd.readouterr().err
    with pytest.raises(ValueError, match=r"time_budget is 0\.001 s and"):
        tcsis.compare(TARGET, names, time_budget=1e-3, **told)


def test_peers_are_kept_and_read_no_presets(tmp_path: Path) -> None:
    found = tcsis.compare(TARGET, ["van"], n=50, steps=2, progress=False)
    assert isinstance(found.models["van"], van.Van)
    named = tcsis.compare(TARGET, [found.models["van"]], n=50, progress=False)
    assert list(named.methods) == ["van"]
    with pytest.raises(ValueError, match="leave out preset, folder, resume"):
        tcsis.compare(TARGET, ["van"], n=50, preset="tiny", folder=tmp_path, resume=True)
