"""The law of any site given any others: normalised, symmetric where the target is, blind to what is
not known, and drawn as it says."""

from collections.abc import Callable

import pytest
import torch
from scipy.stats import chi2
from torch import Tensor

from tcsis.exact import Enumeration
from tcsis.judging.metrics import state_index
from tcsis.learn.any_time import AnyTime
from tcsis.learn.descent import first_weights
from tcsis.learn.models.known_law import KnownLaw, draw, slots_of, way
from tcsis.learn.models.values import Alike, Apart, Signs
from tcsis.reverse.schedules import singles
from tcsis.targets import RBM, Ising, Pairwise, Potts, Target


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


TARGETS: dict[str, Target] = {
    "ising": Ising((2, 4), 0.4),
    "field": Ising((3, 3), 0.4, field=0.3),
    "potts": Potts((2, 3), 3, 0.8),
    "tables": Pairwise(
        [[0, 1], [1, 2], [2, 3], [3, 0]], normal(4, 3, 3, seed=0), torch.zeros(4, 3)
    ),
    "rbm": RBM(normal(6, 2, seed=2), normal(6, seed=3), normal(2, seed=4)),
}
VALUES = {"ising": Signs, "field": Apart, "potts": Alike, "tables": Apart, "rbm": Apart}


@pytest.fixture(params=TARGETS)
def case(request: pytest.FixtureRequest, awake: Callable) -> tuple[Target, KnownLaw]:
    target = TARGETS[request.param]
    with first_weights(0):
        model = awake(AnyTime(width=6).model(target))
    assert isinstance(model.values, VALUES[request.param])
    return target, model


def all_states(target: Target) -> Tensor:
    table = Enumeration(target)
    return table.states(torch.arange(table.num_states))


def some_known(target: Target, seed: int) -> Tensor:
    known = torch.rand(target.num_sites, generator=torch.Generator().manual_seed(seed)) < 0.4
    known[0] = False
    return known


def log_law(model: KnownLaw, blocks: list[Tensor], known: Tensor, x: Tensor) -> Tensor:
    """log q of the sites of some blocks, (b,)."""
    route = way(model, blocks, known)
    answers = model(route.questions, x)
    return answers.gather(-1, x[:, route.sites, None]).sum((1, 2)).detach()


@pytest.mark.parametrize("seed", range(3))
def test_any_blocks_from_any_known_sites_make_a_law(
    case: tuple[Target, KnownLaw], seed: int
) -> None:
    """The sum over all values of the free sites is 1, for every value of the known ones."""
    target, model = case
    known = some_known(target, seed)
    free = (~known).nonzero().squeeze(1)
    free = free[torch.randperm(len(free), generator=torch.Generator().manual_seed(seed))]
    states = all_states(target)
    for blocks in (singles(free), list(free.split(2)), [free]):
        q = log_law(model, blocks, known, states).exp()
        weight = torch.tensor(target.num_values) ** torch.arange(target.num_sites)
        given = (states * known * weight).sum(1)  # a number for all values of the known sites
        totals = torch.zeros(int(given.max()) + 1, dtype=q.dtype).index_add(0, given, q)
        assert torch.allclose(totals[given.unique()], torch.ones((), dtype=q.dtype))


def test_sites_that_know_of_each_other_make_no_law(case: tuple[Target, KnownLaw]) -> None:
    """The wrong version: every site of a block is told the others."""
    target, model = case
    states = all_states(target)
    sites = torch.arange(target.num_sites)
    others = ~torch.eye(target.num_sites, dtype=torch.bool)
    answers = model(model.questions(sites, others), states)
    total = answers.detach().gather(-1, states[..., None]).sum((1, 2)).exp().sum()
    assert abs(float(total) - 1) > 1e-3


def test_what_is_not_known_is_not_read(case: tuple[Target, KnownLaw]) -> None:
    target, model = case
    known, x = some_known(target, 1), all_states(target)[::5]
    other = torch.where(known, x, (x + 1) % target.num_values)
    questions = model.questions(torch.tensor([0]), known[None])
    assert torch.equal(model(questions, x), model(questions, other))


def test_symmetries_of_the_target_are_those_of_the_law(case: tuple[Target, KnownLaw]) -> None:
    """Values renamed, or all sites shifted: the answers go with them."""
    target, model = case
    known, x = some_known(target, 2), all_states(target)[::3]
    site = torch.tensor([0])
    answers = model(model.questions(site, known[None]), x)
    if target.symmetries.value_permutation:
        turn = torch.arange(target.num_values).roll(1)  # v -> v - 1
        renamed = model(model.questions(site, known[None]), turn[x])
        torch.testing.assert_close(renamed[..., turn], answers)
    if target.symmetries.translations:
        assert target.lattice is not None
        shifted = target.lattice.sites.roll((1, 1), (0, 1)).flatten()  # the site that came here
        moved = (shifted == 0).nonzero().squeeze(1)
        there = model(model.questions(moved, known[shifted][None]), x[:, shifted])
        torch.testing.assert_close(there, answers)


@pytest.mark.parametrize("name", ["ising", "field", "potts"])
def test_the_first_guess_is_the_best_linear_prediction(name: str) -> None:
    """Of what a site says from what others do, times the slope of the logit at its mean; by least
    squares over all states, weighted by p."""
    target = TARGETS[name]
    model = AnyTime(width=4).model(target).double()
    states = all_states(target)
    p = target.log_density(states).double().softmax(0)
    counts = (p * 2e6).round().long()
    model.correlate(states.repeat_interleave(counts, 0))
    known = torch.zeros(target.num_sites, dtype=torch.bool)
    known[[1, 2, 4]] = True
    questions = model.questions(torch.tensor([0]), known[None])
    z = model.values.embed(states.T, torch.float64)[:, 0, :, -1].T  # (states, d)
    weight = p.sqrt()[:, None]
    ones = torch.ones(len(z), 1, dtype=torch.float64)
    design = torch.cat([z[:, questions.read[0]], ones], 1)
    best = torch.linalg.lstsq(weight * design, weight * z[:, :1]).solution.squeeze(1)
    mean = float(p @ z[:, 0])
    variance = float(p @ z[:, 0].square()) - mean**2
    share = mean / 2 + 0.5 if target.num_values == 2 else mean + 1 / target.num_values
    slope = 1 / (2 * share * (1 - share)) if target.num_values == 2 else 1 / share
    assert slope == pytest.approx(model.values.slope / variance)
    found = questions.guess.coefficients[0, :, 0]
    torch.testing.assert_close(found, slope * best[:-1], rtol=0.02, atol=0.01)
    away = slope * (best[-1] - mean)  # of the prediction where all that is read is zero
    torch.testing.assert_close(questions.guess.offset[0, 0], away, rtol=0.02, atol=0.01)


def test_sites_share_weights_by_displacement() -> None:
    slots = slots_of(Ising((3, 4), 0.4))
    assert slots.max() == 11
    assert slots[5, 5] == 0 and slots[0, 5] == 5
    assert slots[11, 0] == slots[0, 5]  # one down and one to the right, round the torus
    assert slots_of(Ising((3, 4), 0.4, boundary="open")).unique().numel() == 144


def test_the_nearest_known_sites_are_read() -> None:
    target = Ising(6, 0.4)
    model = AnyTime(width=4, reach=4).model(target)
    questions = model.questions(torch.tensor([14]), ~torch.eye(36, dtype=torch.bool)[14][None])
    assert set(questions.read[0].tolist()) == {8, 20, 13, 15}
    assert questions.counts == [4]


@pytest.mark.statistical
def test_draws_follow_the_law(case: tuple[Target, KnownLaw]) -> None:
    """χ² of 4,000 draws against q, alarm once in 10,000; log q is that of the states drawn."""
    target, model = case
    known = some_known(target, 4)
    free = (~known).nonzero().squeeze(1)
    blocks = [free[:1], free[1:3], free[3:]]
    blocks = [block for block in blocks if len(block)]
    route = way(model, blocks, known)
    start = torch.zeros(4_000, target.num_sites, dtype=torch.long)
    generator = torch.Generator().manual_seed(0)
    x, log_q = draw(model, route, model.weights(route.questions), start, generator)
    assert not x[:, known].any()
    torch.testing.assert_close(log_q, log_law(model, blocks, known, x))
    states = all_states(target)
    states = states[(states[:, known] == 0).all(1)]
    expected = 4_000 * log_law(model, blocks, known, states).exp()
    where = state_index(states, target.num_values)
    found = torch.bincount(state_index(x, target.num_values), minlength=int(where.max()) + 1)
    common = expected > 5
    gap = found[where][common] - expected[common]
    statistic = float((gap.square() / expected[common]).sum())
    assert statistic < chi2.isf(1e-4, int(common.sum()))
