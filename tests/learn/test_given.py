"""Learned samplers given some sites: models of the free ones, draws of all, files."""

import re
from pathlib import Path

import pytest
import torch
from torch import Tensor

import tcsis
from tcsis import exact
from tcsis.learn import presets
from tcsis.targets import Given, Ising, Pairwise, from_callable

METHODS = ["autoregressive", "self-normalized", "unbiased"]
LATTICE = Ising(3, 0.4, field=0.3).given({0: 1, 1: 0, 5: 1})


def train(target: Given, method: str = "autoregressive", **options) -> tcsis.Learned:
    return tcsis.train(target, method, "tiny", progress=False, **options)


def check_draws(target: Given, draws: tcsis.Draws) -> None:
    """Whole states, and E[w] = Z of the given target within 4.5 standard errors (7e-6)."""
    assert draws.x.shape == (len(draws), target.num_sites)
    assert not target.known.contradicted(draws.x).any()
    log_z = exact.solve(target).log_z
    assert draws.log_z == pytest.approx(log_z, abs=4.5 * draws.log_z_error + 1e-5)


@pytest.mark.statistical
def test_every_target(given_target: Given) -> None:
    model = train(given_target)
    draws = model.sample(2_000, seed=1)
    check_draws(given_target, draws)
    assert draws.ess > 0.3
    assert model.num_density_calls > 0


@pytest.mark.statistical
@pytest.mark.parametrize("method", METHODS)
def test_every_method(method: str, tmp_path: Path) -> None:
    model = train(LATTICE, method, steps=20)
    draws = model.sample(500, seed=1)
    check_draws(LATTICE, draws)
    model.save(tmp_path)
    loaded = tcsis.load(tmp_path)
    assert repr(loaded.target) == repr(LATTICE)
    again = loaded.sample(500, seed=1)
    assert torch.equal(again.x, draws.x)
    assert torch.equal(again.log_weight, draws.log_weight)


def test_files(given_target: Given, tmp_path: Path) -> None:
    model = train(given_target, steps=3)
    model.save(tmp_path)
    function = isinstance(given_target.target, type(from_callable(lambda x: x.sum(1) / 2, 2, 2)))
    if function:
        with pytest.raises(ValueError, match="saved without the function itself"):
            tcsis.load(tmp_path)
    loaded = tcsis.load(tmp_path, given_target if function else None)
    assert torch.equal(loaded.sample(50, seed=2).x, model.sample(50, seed=2).x)


def test_a_model_of_other_evidence_is_refused(tmp_path: Path) -> None:
    function = from_callable(lambda x: x.sum(-1).double(), 5, 2)
    for number, target in enumerate((LATTICE, function.given({1: 1}))):
        train(target, steps=1).save(tmp_path / str(number))
        whole, other = target.target, target.target.given({1: 0})
        for wrong in (whole, other):
            with pytest.raises(ValueError, match=re.escape("target has given = ")):
                tcsis.load(tmp_path / str(number), wrong)
        assert tcsis.load(tmp_path / str(number), target).target is target


def test_a_run_goes_on(tmp_path: Path) -> None:
    whole = train(LATTICE, steps=12)
    train(LATTICE, steps=6, folder=tmp_path)
    config = presets.tiny(LATTICE).changed(num_steps=12)
    resumed = tcsis.train(LATTICE, config=config, folder=tmp_path, resume=True, progress=False)
    assert resumed.history[-1]["step"] == 12
    assert resumed.sample(100, seed=0).x.shape == whole.sample(100, seed=0).x.shape
    with pytest.raises(ValueError, match=re.escape("target has given = ")):
        tcsis.train(
            LATTICE.given({7: 1}), config=config, folder=tmp_path, resume=True, progress=False
        )


def test_training_is_measured_on_whole_states() -> None:
    record = train(LATTICE).history[-1]
    assert 0 <= record["error"] < 10 * record["floor"]


def test_presets_are_for_the_free_sites() -> None:
    """Which lie on no lattice, though the target does."""
    assert presets.fast(LATTICE, "self-normalized").method.network.kind == "graph"
    assert presets.fast(LATTICE) == presets.fast(LATTICE.free)


@pytest.mark.statistical
@pytest.mark.parametrize("kernel", [None, "gibbs"])
def test_chains_of_a_model(given_target: Given, kernel: str | None) -> None:
    """Site marginals within 4.5 standard errors of chains (7e-6 each), known sites exact."""
    chains = train(given_target).chain(40, num_chains=200, kernel=kernel, burn_in=20, seed=1).x
    assert not given_target.known.contradicted(chains).any()
    truth = exact.solve(given_target).site_marginals[:, 1]
    means = (chains == 1).double().mean(1)  # of every chain
    error = means.std(0) / len(means) ** 0.5
    assert ((means.mean(0) - truth).abs() <= 4.5 * error + 1e-9).all()


def test_a_tree_is_exact_before_training() -> None:
    """A ring with a known site is a chain, for which the first weights are exact."""
    edges = [[i, (i + 1) % 8] for i in range(8)]
    generator = torch.Generator().manual_seed(0)
    ring = Pairwise(
        edges, torch.randn(8, 2, 2, generator=generator), torch.randn(8, 2, generator=generator)
    ).given({3: 1})
    model = train(ring)
    assert model.history[-1]["step"] == 0
    assert model.sample(1_000).ess > 0.9999


def test_allowed_states_are_used() -> None:
    def five_of_twelve(x: Tensor) -> Tensor:
        return torch.where(x.sum(-1) == 5, x[:, 0].double(), -torch.inf)

    first = torch.tensor([[1] * 5 + [0] * 7])
    teams = from_callable(five_of_twelve, 12, 2, allowed=first).given({0: 1, 6: 0})
    draws = train(teams, steps=100).sample(500, seed=0)
    allowed = ~draws.log_weight.isneginf()
    assert allowed.any()
    assert (draws.x[allowed].sum(-1) == 5).all()


def test_evidence_that_cannot_be() -> None:
    def sets(x: Tensor) -> Tensor:
        return torch.where((x & x.roll(1, -1)).any(-1), -torch.inf, 0.0).double()

    target = from_callable(sets, 6, 2).given({1: 1, 2: 1})
    assert target.target.sketch is not target.target
    with pytest.raises(ValueError, match=re.escape("{1: 1, 2: 1}).free forbids every state that")):
        train(target)
