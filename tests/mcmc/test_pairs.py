"""Pairs of sites move where single ones cannot, at every scale, and exchange many values."""

from collections.abc import Callable
from itertools import permutations

import pytest
import torch
from scipy.stats import chi2
from torch import Tensor

from tcsis import mcmc
from tcsis.exact import Enumeration
from tcsis.judging.metrics import state_index
from tcsis.mcmc.gibbs import MOST_VALUES, PairGibbs, SweepGibbs
from tcsis.mcmc.kernel import InTurn, Kernel
from tcsis.mcmc.runner import KERNELS, start_chains
from tcsis.targets import Target, from_callable


def unless(forbidden: Callable[[Tensor], Tensor], d: int, v: int) -> Target:
    """Random fields, and what is forbidden."""
    generator = torch.Generator().manual_seed(0)
    fields = 0.4 * torch.randn(d, v, generator=generator, dtype=torch.float64)
    sites = torch.arange(d)
    return from_callable(
        lambda x: torch.where(forbidden(x), -torch.inf, fields[sites, x].sum(1)), d, v
    )


HOT = unless(lambda x: x.sum(1) != 3, 8, 2)
CONSTRAINED: dict[str, tuple[Target, list[int], int]] = {  # with an allowed state, and how many
    "3 of 8 hot": (HOT, [1, 1, 1, 0, 0, 0, 0, 0], 56),
    "even": (unless(lambda x: x.sum(1) % 2 == 1, 7, 2), [0] * 7, 64),
    "permutations": (
        unless(lambda x: (x.sort(1).values != torch.arange(4)).any(1), 4, 4), [0, 1, 2, 3], 24,
    ),
}  # fmt: skip


def moved(kernel: Kernel, target: Target, x: Tensor, num_steps: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    state = kernel.init(target, x)
    for _ in range(num_steps):
        state, share = kernel.step(target, state, generator)
        assert share.shape == x.shape[:-1]
    return state.x


def statistic(x: Tensor, target: Target, scale: float = 1.0) -> tuple[float, int]:
    """χ² of states (n, d) against p^scale over all allowed states, and its degrees of freedom."""
    log_p = Enumeration(target).log_density
    p = torch.where(log_p.isneginf(), -torch.inf, scale * log_p).softmax(0)
    counts = torch.bincount(state_index(x, target.num_values), minlength=len(p)).double()
    assert counts[p == 0].sum() == 0
    expected = len(x) * p[p > 0]
    return float(((counts[p > 0] - expected).square() / expected).sum()), len(expected) - 1


@pytest.mark.statistical
@pytest.mark.parametrize("name", CONSTRAINED)
def test_all_allowed_states_are_reached(name: str) -> None:
    """From one of them, and with the right frequencies, χ² at 1e-5; single sites stay where they
    are."""
    target, start, num_allowed = CONSTRAINED[name]
    x = torch.tensor(start).expand(4_000, -1)
    assert torch.equal(moved(SweepGibbs(), target, x, 5), x)
    y = moved(PairGibbs(), target, x, 12)
    assert len(y.unique(dim=0)) == num_allowed == int(Enumeration(target).p.gt(0).sum())
    found, freedom = statistic(y, target)
    assert found < chi2.isf(1e-5, freedom)


@pytest.mark.statistical
def test_every_chain_has_a_scale_of_its_own() -> None:
    """Half of the chains at 0.3, half at 1: χ² at 1e-5 each, and beyond it the other way round."""
    x = torch.tensor(CONSTRAINED["3 of 8 hot"][1]).expand(8_000, -1)
    scale = torch.tensor([0.3, 1.0]).repeat(4_000)
    y = moved(PairGibbs(), HOT.scaled(scale), x, 12)
    for first, own, other in ((0, 0.3, 1.0), (1, 1.0, 0.3)):
        half = y[first::2]
        found, freedom = statistic(half, HOT, own)
        assert found < chi2.isf(1e-5, freedom) < statistic(half, HOT, other)[0]


@pytest.mark.statistical
def test_many_values_are_exchanged() -> None:
    """Three sites of 20 values keep the values that they have: χ² over their 6 orders, 1e-5."""
    v = MOST_VALUES + 4
    fields = torch.randn(3, v, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    sites = torch.arange(3)
    target = from_callable(lambda x: fields[sites, x].sum(1), 3, v)
    y = moved(PairGibbs(), target, torch.tensor([2, 7, 19]).expand(4_000, -1), 8)
    orders = torch.tensor(list(permutations([2, 7, 19])))
    counts = (y[:, None] == orders).all(-1).sum(0).double()
    assert counts.sum() == 4_000
    expected = 4_000 * target.log_density(orders).softmax(0)
    found = float(((counts - expected).square() / expected).sum())
    assert found < chi2.isf(1e-5, 5)


def test_one_site_and_batches_of_any_shape() -> None:
    alone = from_callable(lambda x: x.sum(1).double(), 1, 3)
    x = torch.tensor([[0], [2]])
    assert torch.equal(moved(PairGibbs(), alone, x, 3), x)
    y = moved(PairGibbs(), HOT, torch.tensor(CONSTRAINED["3 of 8 hot"][1]).expand(5, 7, -1), 4)
    assert y.shape == (5, 7, 8)
    assert HOT.log_density(y).isfinite().all()


def test_in_turn_is_one_after_the_other() -> None:
    """The same states as its parts, from one generator."""
    target = unless(lambda x: x.sum(1) == 0, 5, 2)  # where single sites move too
    x = torch.ones(50, 5, dtype=torch.long)
    both = moved(InTurn((SweepGibbs(), PairGibbs())), target, x, 1)
    generator = torch.Generator().manual_seed(0)
    state = SweepGibbs().step(target, SweepGibbs().init(target, x), generator)[0]
    expected = PairGibbs().step(target, state, generator)[0].x
    assert torch.equal(both, expected)
    assert not torch.equal(both, x)


def test_they_have_a_name_and_run_as_chains() -> None:
    assert KERNELS["pair-gibbs"] == PairGibbs()
    init = torch.tensor(CONSTRAINED["3 of 8 hot"][1]).expand(20, -1)
    draws = mcmc.sample(HOT, "pair-gibbs", num_chains=20, num_steps=10, init=init, seed=0)
    assert HOT.log_density(draws.x.long()).isfinite().all()
    chains = start_chains(HOT, InTurn((SweepGibbs(), PairGibbs())), init, 0)
    chains.place(init, torch.zeros(20))  # all allowed states alike, and none forbidden
    chains.advance(3)
    assert HOT.log_density(chains.x).isfinite().all()


# -- annealing from allowed states ----------------------------------------------------------------


@pytest.mark.statistical
def test_annealing_from_one_allowed_state() -> None:
    """A population that starts from copies of one state ends in the right law: χ² at 1e-5."""
    init = torch.tensor(CONSTRAINED["3 of 8 hot"][1]).expand(4_000, -1)
    population = mcmc.population_annealing(
        HOT, "pair-gibbs", num_replicas=4_000, num_rungs=5, steps_per_rung=3, init=init, seed=0
    )
    x = population.draws.x[:, 0].long()
    found, freedom = statistic(x, HOT)
    assert found < chi2.isf(1e-5, freedom)
    assert population.log_z != population.log_z  # nothing is known of the number of states


def test_annealing_wants_states_that_fit() -> None:
    for init in (torch.zeros(3, 8, dtype=torch.long), torch.zeros(4, 7, dtype=torch.long)):
        with pytest.raises(ValueError, match=r"shape .*expected"):
            mcmc.population_annealing(HOT, "pair-gibbs", num_replicas=4, init=init)
