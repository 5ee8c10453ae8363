"""The sequential model against enumeration: its law, its weights, and the target's conditionals."""

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
from tcsis.learn import assemble, presets
from tcsis.learn.models.labels import ByAppearance, ByName
from tcsis.learn.models.sequential import Sequential, log_target, site_conditionals
from tcsis.noise import UniformNoise
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
        config = presets.tiny(self.target).model_copy(update={"symmetric": by_appearance})
        model = assemble.make_model(config, self.target, seed=0)
        assert isinstance(model, Sequential)
        assert isinstance(model.labels, ByAppearance if by_appearance else ByName)
        self.model: Sequential = awake(model, seed=3, scale=0.7).requires_grad_(False)
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
    draws = case.model.sample(case.target, n, torch.Generator().manual_seed(5), batch_size=1_500)
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
        assert 'schedule="parallel"' in str(caught.value)


# -- what training compares with -------------------------------------------------------------------


def test_log_target_is_the_marginal_of_the_ordered_sites(case: Case) -> None:
    log_p = log_target(case.model, case.target, case.x)
    torch.testing.assert_close(log_p, case.log_ordered, rtol=0, atol=1e-10)


def test_site_conditionals_average_to_the_exact_ones(case: Case) -> None:
    """Σ_x p(x | x_<k)·P(x_k = v | the other sites) = p(x_k = v | x_<k)."""
    by_label = site_conditionals(case.model, case.target, case.x).exp()
    names = case.model.labels.names(case.x[:, case.model.order])[:, None].expand(by_label.shape)
    by_value = by_label.gather(-1, names)
    p = case.table.p
    for k, site in enumerate(case.model.order):
        mean = case.summed(k, p[:, None] * by_value[:, k]) / case.summed(k, p)[:, None]
        one_hot = torch.nn.functional.one_hot(case.x[:, site], case.target.num_values)
        exact = case.summed(k, p[:, None] * one_hot) / case.summed(k, p)[:, None]
        torch.testing.assert_close(mean, exact, rtol=0, atol=1e-10)


def test_log_marginal_is_the_law_times_its_total(case: Case) -> None:
    case.model.centre.fill_(3.0)
    case.model.offset.fill_(0.5)
    last = [] if case.model.last is None else case.model.last
    log_p = case.model.log_marginal(case.x[(case.x[:, last] == 0).all(1)])
    assert float(log_p.logsumexp(0)) == pytest.approx(3.5, abs=1e-10)
