"""The autoregressive method against enumeration: law, weights, conditionals, objectives."""

import itertools
from collections.abc import Callable

import pytest
import torch
from scipy.stats import chi2
from torch import Tensor

from tcsis import reverse
from tcsis.exact import Enumeration
from tcsis.judging.metrics import state_index
from tcsis.judging.weights import eubo
from tcsis.learn import presets
from tcsis.learn.asks import RATIOS
from tcsis.learn.autoregressive import (
    Autoregressive,
    AutoregressiveSampler,
    CausalLaw,
    by_both_sides,
    by_conditionals,
    by_spread,
    site_laws,
    spread,
)
from tcsis.learn.buffers import Buffer, Uniform
from tcsis.learn.method import How
from tcsis.learn.models.labels import ByAppearance, ByName
from tcsis.learn.models.last import log_summed
from tcsis.noise import UniformNoise
from tcsis.reverse.schedules import last_class, remaining
from tcsis.reverse.steps import tweedie
from tcsis.targets import Ising, Pairwise, Potts, Target, from_callable

DOUBLE = {"dtype": torch.float64}


def random_pairwise(num_sites: int, num_values: int) -> Pairwise:
    """Random tables on a complete graph: no symmetry, no colouring."""
    generator = torch.Generator().manual_seed(0)
    edges = list(itertools.combinations(range(num_sites), 2))
    shape = (len(edges), num_values, num_values)
    couplings = torch.randn(shape, generator=generator, **DOUBLE)
    fields = torch.randn(num_sites, num_values, generator=generator, **DOUBLE)
    return Pairwise(edges, couplings, fields, **DOUBLE)


TARGETS: dict[str, tuple[Target, bool]] = {  # with labels by appearance or not
    "ising-2x2": (Ising(2, 0.4, **DOUBLE), True),
    "ising-3x3": (Ising(3, 0.3, **DOUBLE), True),
    "ising-4x2, by name": (Ising((4, 2), 0.3, 0.2, **DOUBLE), False),
    "potts-2x2": (Potts(2, 3, 0.6, **DOUBLE), True),
    "potts-2x3": (Potts((2, 3), 3, 0.6, **DOUBLE), True),
    "potts-2x2, by name": (Potts(2, 3, 0.6, **DOUBLE), False),
    "potts-2x2, four values": (Potts(2, 4, 0.6, **DOUBLE), True),
    "pairwise": (random_pairwise(4, 3), False),
    "callable": (from_callable(lambda x: -0.3 * x.double().sum(1).square(), 5, 2), False),
}


class Case:
    """A target with a model of random weights, and everything about both by enumeration."""

    def __init__(self, name: str, awake: Callable):
        self.target, by_appearance = TARGETS[name]
        config = presets.tiny(self.target).changed(method={"symmetric": by_appearance})
        model = config.new_model(self.target, seed=0)
        assert isinstance(model, CausalLaw)
        assert isinstance(model.labels, ByAppearance if by_appearance else ByName)
        self.model: CausalLaw = awake(model, seed=3, scale=0.7).requires_grad_(False)
        self.table = Enumeration(self.target)
        self.x = self.table.states(torch.arange(self.table.num_states))

    def summed(self, num_known: int, f: Tensor) -> Tensor:
        """Σ f over all states that agree with x on the first sites of the order, (N, ...)."""
        key = state_index(self.x[:, self.model.order[:num_known]], self.target.num_values)
        total = torch.zeros(int(key.max()) + 1, *f.shape[1:], **DOUBLE).index_add(0, key, f)
        return total[key]

    @property
    def log_ordered(self) -> Tensor:
        """log of p̄ summed over the last class, (N,)."""
        return self.summed(len(self.model.order), self.table.log_density.exp()).log()

    @property
    def log_q(self) -> Tensor:
        """log q of whole states: the model's conditionals times the target's own, (N,)."""
        log_q = self.model.log_prob(self.x).sum(1)
        return log_q + self.table.log_density - self.log_ordered


@pytest.fixture(params=TARGETS)
def case(request: pytest.FixtureRequest, awake: Callable) -> Case:
    return Case(request.param, awake)


# -- the law ---------------------------------------------------------------------------------------


def test_the_law_is_normalised(case: Case) -> None:
    assert float(case.log_q.exp().sum()) == pytest.approx(1, abs=1e-10)
    # and is far from flat, so that the weights mean something
    assert float(case.model.log_prob(case.x).std()) > 0.05


def test_every_site_of_the_order_is_normalised(case: Case) -> None:
    conditionals = case.model.conditionals(case.model.read(case.x))
    torch.testing.assert_close(
        conditionals.exp().sum(-1), torch.ones_like(conditionals[..., 0]), rtol=0, atol=1e-12
    )


def test_next_site_is_the_conditional_by_value(case: Case) -> None:
    """Summed from q itself: q(x_k = v | x_<k) = q(x_≤k)/q(x_<k)."""
    q = case.log_q.exp()
    for k in range(len(case.model.order)):
        log_p = case.model.next_site(case.x[:, case.model.order[:k]])
        assert float(log_p.logsumexp(-1).abs().max()) < 1e-12
        here = log_p.gather(1, case.x[:, case.model.order[k], None]).squeeze(1)
        expected = (case.summed(k + 1, q) / case.summed(k, q)).log()
        torch.testing.assert_close(here, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", [name for name, (_, alike) in TARGETS.items() if alike])
def test_patterns_make_the_law_symmetric(name: str, awake: Callable) -> None:
    case = Case(name, awake)
    log_q = case.model.log_prob(case.x)
    for renaming in itertools.permutations(range(case.target.num_values)):
        assert torch.equal(case.model.log_prob(torch.tensor(renaming)[case.x]), log_q)


def test_names_do_not_make_it_symmetric(awake: Callable) -> None:
    case = Case("potts-2x2, by name", awake)
    log_q = case.model.log_prob(case.x)
    assert (case.model.log_prob((case.x + 1) % 3) - log_q).abs().max() > 0.1


# -- draws and weights -----------------------------------------------------------------------------


@pytest.mark.statistical
def test_draws_follow_the_law(case: Case) -> None:
    """χ² of 4,000 draws over all states expected five times or more, and the rest taken together;
    false alarms 1e-4 each."""
    n, v = 4_000, case.target.num_values
    draws = AutoregressiveSampler(case.target, case.model).draw(
        n, torch.Generator().manual_seed(5), How(batch_size=1_500)
    )
    counts = torch.bincount(state_index(draws.x, v), minlength=case.table.num_states).double()
    expected = n * case.log_q.exp()
    common = expected >= 5
    if not bool(common.all()):
        counts = torch.cat([counts[common], counts[~common].sum()[None]])
        expected = torch.cat([expected[common], expected[~common].sum()[None]])
    statistic = float(((counts - expected).square() / expected).sum())
    assert statistic < chi2.isf(1e-4, len(counts) - 1)
    assert draws.num_network_calls == n * len(case.model.order)


def test_weights_are_density_over_law(case: Case) -> None:
    """From ``sample``, and from the reverse loop with the model as a denoiser; and for every state
    from the loop run backwards, so that Σ_x q(x)·w(x) = Z exactly."""
    target, model, v = case.target, case.model, case.target.num_values
    log_w = case.table.log_density - case.log_q
    noise = UniformNoise(v)
    for draws in (
        model.sample(target, 300, torch.Generator().manual_seed(1)),
        reverse.sample(target, model.denoiser, noise, model.schedule, n=300, seed=1),
    ):
        expected = log_w[state_index(draws.x, v)]
        torch.testing.assert_close(draws.log_weight, expected, rtol=0, atol=1e-5)
    upper = eubo(target, model.denoiser, noise, model.schedule, tweedie, case.x)
    torch.testing.assert_close(upper.log_weight, log_w, rtol=0, atol=1e-5)
    total = float((case.log_q + upper.log_weight).logsumexp(0))
    assert total == pytest.approx(case.table.log_z, abs=1e-5)


@pytest.mark.statistical
def test_the_reverse_loop_draws_from_the_law(awake: Callable) -> None:
    """χ² of 4,000 draws over 16 states; false alarms 1e-4."""
    case = Case("ising-2x2", awake)
    draws = reverse.sample(
        case.target, case.model.denoiser, UniformNoise(2), case.model.schedule, n=4_000, seed=2
    )
    expected = 4_000 * case.log_q.exp()
    counts = torch.bincount(state_index(draws.x, 2), minlength=16)
    assert float(((counts - expected).square() / expected).sum()) < chi2.isf(1e-4, 15)


def test_draws_repeat_with_the_seed(awake: Callable) -> None:
    case = Case("potts-2x3", awake)
    first, again, other = (
        case.model.sample(case.target, 50, torch.Generator().manual_seed(seed)).x
        for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_times_of_other_schedules_are_refused(awake: Callable) -> None:
    model = Case("ising-3x3", awake).model
    x = torch.zeros(2, 9, dtype=torch.long)
    parallel = torch.full((2, 9), 0.5)
    wrong_site_first = torch.ones(2, 9)
    wrong_site_first[:, model.order[1]] = 0
    rows_differ = torch.ones(2, 9)
    rows_differ[0, model.order[0]] = 0
    for t in (parallel, wrong_site_first, rows_differ, torch.zeros(2, 9)):
        with pytest.raises(ValueError, match="not a time of this model") as caught:
            model.denoiser(x, t)
        assert 'method="self-normalized"' in str(caught.value)


# -- what training compares with -------------------------------------------------------------------


def test_log_summed_is_the_marginal_of_the_ordered_sites(case: Case) -> None:
    log_p = log_summed(case.target, case.x, case.model.last)
    torch.testing.assert_close(log_p, case.log_ordered, rtol=0, atol=1e-10)


def test_site_conditionals_average_to_the_exact_ones(case: Case) -> None:
    """Σ_x p(x | x_<k)·P(x_k = v | the other sites) = p(x_k = v | x_<k)."""
    by_label = site_laws(case.model, RATIOS, case.target, case.x).exp()
    names = case.model.labels.names(case.x[:, case.model.order])[:, None].expand(by_label.shape)
    by_value = by_label.gather(-1, names)
    p = case.table.p
    for k, site in enumerate(case.model.order):
        mean = case.summed(k, p[:, None] * by_value[:, k]) / case.summed(k, p)[:, None]
        one_hot = torch.nn.functional.one_hot(case.x[:, site], case.target.num_values)
        exact = case.summed(k, p[:, None] * one_hot) / case.summed(k, p)[:, None]
        torch.testing.assert_close(mean, exact, rtol=0, atol=1e-10)


# -- objectives ------------------------------------------------------------------------------------


def exact_law(target: Target) -> CausalLaw:
    """The model of a 2×2 lattice, where two sites are drawn one by one, with the exact law."""
    table, v = Enumeration(target), target.num_values
    last = last_class(target)
    order = remaining(4, last)
    model = CausalLaw(v, order, last, ByName(v), width=4).double()
    joint = table.pair_marginals[order[0], :, order[1]]  # P(first = u, second = v)
    log_second = (joint / joint.sum(1, keepdim=True)).log()
    with torch.no_grad():
        # the network gives logits against the first value
        first, second = joint.sum(1).log(), log_second[:, 1:] - log_second[:, :1]
        model.network.bias[0, 0] = first[1:] - first[0]
        model.network.bias[1, 0] = second.mean(0)
        rows = (second[1:] - second[:1]) / 2 if v == 2 else second
        model.network.linear[1, : len(rows)] = rows
    return model


LATTICES = {"ising": Ising(2, 0.25, 0.3, **DOUBLE), "potts": Potts(2, 3, 0.5, **DOUBLE)}
OBJECTIVES = {
    "both-sides": by_both_sides,
    "spread": by_spread,
    "cross-entropy": by_conditionals,
}


@pytest.mark.parametrize("lattice", LATTICES)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_objectives_are_least_at_the_exact_law(name: str, lattice: str) -> None:
    target = LATTICES[lattice]
    model, table = exact_law(target), Enumeration(target)
    x = table.states(torch.arange(table.num_states))
    compare, buffer = OBJECTIVES[name], Buffer(Uniform(), target)

    def mean_loss() -> Tensor:
        """Under p; the spread, which compares the states of a batch, over all of them at once."""
        if name != "cross-entropy":
            return compare(model, RATIOS, buffer, x, torch.Generator().manual_seed(0))[0]
        parts = [compare(model, RATIOS, buffer, row[None], torch.Generator())[0] for row in x]
        return (table.p * torch.stack(parts)).sum()

    generator = torch.Generator().manual_seed(0)
    least = mean_loss()
    least.backward()
    for key, weights in model.named_parameters():
        assert weights.grad is None or weights.grad.abs().max() < 1e-9, key
    if name != "cross-entropy":  # which compares with single draws, and so is never zero
        assert least.abs().item() < 1e-12
    for key, weights in model.named_parameters():
        if weights.grad is None or key.endswith(("w1", "b1", "w2", "b2")):
            continue
        for sign in (0.1, -0.1):
            step = sign * torch.randn(weights.shape, generator=generator, **DOUBLE)
            with torch.no_grad():
                weights += step
                assert mean_loss() > least.detach() - 1e-12, key
                weights -= step
    with torch.no_grad():
        model.network.bias[0, 0, 0] += 0.1
        assert mean_loss() > least.detach() + 1e-4


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_batch_puts_its_states_back(objective: str) -> None:
    """As they were, or, where the model's own draws are weighed anyway, exchanged for these: at the
    exact law for all of them."""
    target = LATTICES["ising"]
    x = Enumeration(target).states(torch.arange(16))
    buffer = Buffer(presets.tiny(target).buffer, target)
    method = Autoregressive(objective=OBJECTIVES[objective])
    _, back = method.loss(exact_law(target), target, buffer)(x, torch.Generator().manual_seed(0))
    assert back.shape == x.shape
    assert torch.equal(back, x) == (objective != "both-sides")


def test_the_spread_is_half_the_variance() -> None:
    log_ratio = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    assert spread(log_ratio).item() == pytest.approx(7 / 3 / 2)
    assert spread(log_ratio + 100).item() == pytest.approx(7 / 3 / 2)


def test_the_spread_vanishes_state_by_state() -> None:
    log_p, tilt = torch.randn(2, 6, generator=torch.Generator().manual_seed(1), **DOUBLE)
    log_q = (log_p - 3).requires_grad_()
    (slope,) = torch.autograd.grad(spread(log_p - log_q), log_q)
    assert slope.abs().max() < 1e-12
    (slope,) = torch.autograd.grad(spread(log_p + tilt - log_q), log_q)
    assert slope.abs().min() > 1e-3


def test_the_last_site_of_a_black_box_comes_from_the_target(awake: Callable) -> None:
    """An even number of ones, which no network has learned: the last site knows."""

    def even(x: Tensor) -> Tensor:
        return torch.where(x.sum(1) % 2 == 0, 0.3 * x[:, 0].double(), -torch.inf)

    target = from_callable(even, 6, 2)
    model = awake(Autoregressive(width=4).model(target), seed=3, scale=0.7)
    draws = model.sample(target, 500, torch.Generator().manual_seed(0))
    assert draws.log_weight is not None and bool(draws.log_weight.isfinite().all())
    x = Enumeration(target).states(torch.arange(64))
    log_w = model.log_weight(target, x)
    allowed = even(x) > -torch.inf
    # Σ q·w over the allowed states is Z, and q has no mass elsewhere
    log_q = even(x)[allowed] - log_w[allowed]
    assert float(log_q.exp().sum()) == pytest.approx(1, abs=1e-5)
    assert bool(log_w[~allowed].isneginf().all())


def test_where_all_values_are_forbidden_a_draw_has_no_weight(awake: Callable) -> None:
    target = from_callable(lambda x: torch.where(x.sum(1) == 1, 0.0, -torch.inf).double(), 5, 2)
    model = awake(Autoregressive(width=4).model(target), seed=3, scale=0.7)
    draws = model.sample(target, 500, torch.Generator().manual_seed(0))
    assert draws.log_weight is not None and not bool(draws.log_weight.isnan().any())
    assert bool((draws.log_weight.isfinite() == (draws.x.sum(1) == 1)).all())
