"""MDNS against enumeration: conditionals, paths, weights, the four objectives, training, files."""

import math
from collections.abc import Callable
from itertools import permutations, product
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import tcsis
from tcsis.learn.training import DivergedError
from tcsis.peers import mdns
from tcsis.peers.mdns import (
    CrossEntropy,
    DenoisingCrossEntropy,
    LogVariance,
    MdnsConfig,
    MdnsLoss,
    RelativeEntropy,
)
from tcsis.peers.mdns.model import Unmasker, make_model
from tcsis.peers.mdns.objectives import Own, Replay, denoising, random_masks
from tcsis.peers.mdns.paths import Paths, draw, even_sizes, log_path
from tcsis.targets import Ising, Pairwise, Potts, SherringtonKirkpatrick, Target, from_callable

F64 = {"dtype": torch.float64}


def three_sites() -> Target:
    """Three sites of three values, with fields and tables of no symmetry."""
    generator = torch.Generator().manual_seed(2)
    couplings = torch.randn(3, 3, 3, generator=generator)
    fields = torch.randn(3, 3, generator=generator)
    return Pairwise([(0, 1), (1, 2), (0, 2)], 0.6 * couplings, 0.5 * fields, **F64)


SMALL: dict[str, Target] = {
    "ising": Ising(side=2, beta=0.4, **F64),
    "field": Ising(side=2, beta=0.4, field=0.3, **F64),
    "spins": SherringtonKirkpatrick(3, beta=0.7, seed=1, **F64),
    "three": three_sites(),
    "function": from_callable(lambda x: torch.sin((x * x.roll(1, -1)).sum(-1).double()), 3, 3),
}
OBJECTIVES = {
    "wdce": DenoisingCrossEntropy(batch_size=64, num_draws=256, refresh_every=10),
    "ce": CrossEntropy(batch_size=32, num_draws=256, refresh_every=10),
    "rerf": RelativeEntropy(),
    "lv": LogVariance(),
}
QUICK = MdnsConfig(objective=OBJECTIVES["wdce"], num_steps=200, num_evaluations=0)


def all_states(target: Target) -> Tensor:
    return torch.cartesian_prod(*[torch.arange(target.num_values)] * target.num_sites)


def all_orders(d: int) -> Tensor:
    return torch.tensor(list(permutations(range(d))))


def all_masks(d: int) -> Tensor:
    return torch.tensor(list(product([False, True], repeat=d)))


def random_model(target: Target, awake: Callable[..., nn.Module], scale: float = 0.3) -> Unmasker:
    model = awake(make_model(MdnsConfig(width=6), target, seed=0), scale=scale)
    assert isinstance(model, Unmasker)
    return model


class Table(nn.Module):
    """The exact conditionals of a target by enumeration, with ``shift`` (d, v) to be learned."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.states = all_states(target)
        self.log_p = target.log_density(self.states).double()
        self.shift = nn.Parameter(torch.zeros(target.num_sites, target.num_values, **F64))

    def forward(self, x: Tensor, known: Tensor) -> Tensor:
        agrees = ((self.states == x[:, None]) | ~known[:, None]).all(-1)  # (b, states)
        log_p = torch.where(agrees, self.log_p, -torch.inf)
        values = torch.arange(self.shift.shape[1])
        held = self.states[..., None] == values  # (states, d, v)
        every = torch.where(held, log_p[..., None, None], -torch.inf).logsumexp(1)
        return (every.nan_to_num(neginf=-50.0) + self.shift).log_softmax(-1)

    def at(self, x: Tensor, known: Tensor, site: Tensor) -> Tensor:
        return self(x, known)[torch.arange(len(x)), site]


def gradient(loss: Tensor, model: nn.Module) -> Tensor:
    weights = list(model.parameters())
    found = torch.autograd.grad(loss, weights, retain_graph=True)
    return torch.cat([part.flatten() for part in found])


# -- conditionals ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMALL)
def test_conditionals_read_what_is_known_and_nothing_else(
    name: str, awake: Callable[..., nn.Module]
) -> None:
    target = SMALL[name]
    model, x = random_model(target, awake), all_states(target)
    for known in all_masks(target.num_sites):
        mask = known.expand(len(x), -1)
        log_s = model(x, mask)
        torch.testing.assert_close(log_s.exp().sum(-1), torch.ones(x.shape, **F64))
        hidden = torch.where(mask, x, target.num_values - 1 - x)
        assert torch.equal(log_s, model(hidden, mask))
        for i in range(target.num_sites):
            alone = model.at(x, mask, torch.full((len(x),), i))
            torch.testing.assert_close(alone, log_s[:, i], rtol=0, atol=1e-12)
    assert float(log_s.detach().std()) > 0.1


def test_what_may_be_turned_is_turned_alike(awake: Callable[..., nn.Module]) -> None:
    target = SMALL["ising"]
    model, x = random_model(target, awake), all_states(target)
    known = torch.tensor([True, False, True, False]).expand(len(x), -1)
    torch.testing.assert_close(model(x, known), model(1 - x, known).flip(-1))
    other = random_model(SMALL["field"], awake)
    assert (other(x, known) - other(1 - x, known).flip(-1)).abs().max() > 0.1


# -- paths and weights -----------------------------------------------------------------------------


def mean_weights(
    target: Target, law: Callable[[Tensor, Tensor], Tensor], weights: Tensor
) -> Tensor:
    """log E[w] for every order: Σ_x q(x|σ)·w(x, σ) over all states, with log q by ``law`` and log w
    (orders, states)."""
    x = all_states(target)
    log_q = torch.stack([law(x, o.expand(len(x), -1)) for o in all_orders(target.num_sites)])
    torch.testing.assert_close(log_q.logsumexp(1), torch.zeros(len(log_q), **F64))
    return (log_q + weights).logsumexp(1).detach()


def weights_drawn(model: Unmasker, target: Target, sizes: list[int]) -> Tensor:
    """log w of every order and state as ``draw`` gives them, (orders, states)."""
    d, v = target.num_sites, target.num_values
    paths = draw(model, target, 12_000, sizes, torch.Generator().manual_seed(0))
    state = (paths.x * v ** torch.arange(d - 1, -1, -1)).sum(1)
    orders = all_orders(d)
    order = (paths.order[:, None] == orders).all(-1).long().argmax(1)
    found = torch.full((len(orders), v**d), math.nan, **F64)
    found[order, state] = paths.log_weight()
    assert found.isfinite().all()  # every path was drawn
    return found


@pytest.mark.parametrize("name", ["spins", "three", "function"])
def test_the_mean_weight_is_z_for_every_order(name: str, awake: Callable[..., nn.Module]) -> None:
    """One site a step, and several: q by its definition and w as drawn.  Weights of steps of other
    sizes, of half β, or without q have another mean."""
    target = SMALL[name]
    model, d = random_model(target, awake, scale=0.1), target.num_sites
    truth = torch.full((math.factorial(d),), tcsis.exact.solve(target).log_z, **F64)
    log_density = target.log_density(all_states(target)).double()
    drawn = {calls: weights_drawn(model, target, even_sizes(d, calls)) for calls in (1, 2, 3)}
    for calls, weights in drawn.items():
        sizes = even_sizes(d, calls)

        def log_mean(log_w: Tensor, sizes: list[int] = sizes) -> Tensor:
            return mean_weights(target, lambda x, o: by_steps(model, x, o, sizes), log_w)

        torch.testing.assert_close(log_mean(weights), truth)
        others = [weights for number, weights in drawn.items() if number != calls]
        without_q = log_density.expand_as(weights)
        for wrong in (*others, weights - 0.5 * log_density, without_q):
            assert (log_mean(wrong) - truth).abs().max() > 0.01


def by_steps(model: Unmasker, x: Tensor, order: Tensor, sizes: list[int]) -> Tensor:
    """log q(x | σ) from its definition, step after step."""
    known, total = torch.zeros_like(x, dtype=torch.bool), torch.zeros(len(x), **F64)
    for sites in order.split(sizes, 1):
        log_s = model(x, known)
        for i in sites.T:
            total = total + log_s[torch.arange(len(x)), i, x[torch.arange(len(x)), i]]
        known = known.scatter(1, sites, True)
    return total


@pytest.mark.parametrize("name", SMALL)
def test_paths_know_their_probability(name: str, awake: Callable[..., nn.Module]) -> None:
    target = SMALL[name]
    model, d = random_model(target, awake), target.num_sites
    for calls in (d, 2, 1):
        sizes = even_sizes(d, calls)
        paths = draw(model, target, 50, sizes, torch.Generator().manual_seed(0))
        expected = by_steps(model, paths.x, paths.order, sizes)
        torch.testing.assert_close(paths.log_q, expected.detach(), rtol=0, atol=1e-12)
    whole = draw(model, target, 50, [1] * d, torch.Generator().manual_seed(0))
    torch.testing.assert_close(whole.log_q, log_path(model, whole.x, whole.order).detach())
    expected = 0.5 * target.log_density(whole.x) - whole.log_q
    torch.testing.assert_close(whole.log_weight(0.5), expected)


@pytest.mark.statistical
@pytest.mark.parametrize("calls", [3, 2])
def test_draws_follow_their_law(calls: int, awake: Callable[..., nn.Module]) -> None:
    """Frequencies of 50,000 draws within five standard errors, about 1e-6 a state; log Z by their
    weights within 4.5 (7e-6)."""
    target, n = SMALL["three"], 50_000
    model, sizes = random_model(target, awake), even_sizes(3, calls)
    x, states = all_states(target), all_orders(3)
    law = torch.stack([by_steps(model, x, o.expand(len(x), -1), sizes).exp() for o in states])
    expected = law.mean(0).detach()
    draws = mdns.Mdns(target, MdnsConfig(width=6), model).sample(n, calls=calls, seed=3)
    seen = torch.bincount((draws.x.long() * torch.tensor([9, 3, 1])).sum(1), minlength=27) / n
    assert ((seen - expected).abs() < 5 * (expected / n).sqrt() + 1e-4).all()
    assert draws.ess < 0.95
    truth = tcsis.exact.solve(target).log_z
    assert abs(draws.log_z - truth) < 4.5 * draws.log_z_error


def test_sizes() -> None:
    assert even_sizes(7, 7) == [1] * 7
    assert even_sizes(7, 3) == [3, 2, 2]
    assert even_sizes(7, 1) == [7]


# -- objectives ------------------------------------------------------------------------------------


def expected_denoising(
    model: nn.Module, target: Target, scale: Callable[[int, int], float]
) -> Tensor:
    """E_p of the loss over all states and all masks, where m masked of d have a chance and a factor
    together of ``scale``."""
    x, d = all_states(target), target.num_sites
    p = target.log_density(x).double().softmax(0)
    total = torch.zeros((), **F64)
    for masked in all_masks(d)[1:]:
        m = int(masked.sum())
        loss = denoising(model, x, masked.expand(len(x), -1)) * m / d  # without its own factor
        total = total + scale(m, d) * (p @ loss)
    return total


def by_count(m: int, d: int) -> float:
    """1/d for m, 1/C(d, m) for the sites, and d/m."""
    return 1 / (d * math.comb(d, m)) * d / m


def by_share(m: int, d: int) -> float:
    """∫ λ^m·(1-λ)^(d-m)·1/λ dλ."""
    return math.gamma(m) * math.gamma(d - m + 1) / math.gamma(d + 1)


def without_factor(m: int, d: int) -> float:
    """∫ λ^m·(1-λ)^(d-m) dλ, where 1/λ is forgotten."""
    return math.gamma(m + 1) * math.gamma(d - m + 1) / math.gamma(d + 2)


def expected_cross_entropy(model: nn.Module, target: Target) -> Tensor:
    """E_p of -log q(x | σ) over all states and all orders."""
    x = all_states(target)
    p = target.log_density(x).double().softmax(0)
    orders = all_orders(target.num_sites)
    return -sum(p @ log_path(model, x, o.expand(len(x), -1)) for o in orders) / len(orders)


@pytest.mark.parametrize("name", ["field", "three"])
def test_denoising_is_cross_entropy(name: str, awake: Callable[..., nn.Module]) -> None:
    """In value and in gradient, over λ or over counts; without 1/λ it is not."""
    target = SMALL[name]
    model = random_model(target, awake)
    truth = expected_cross_entropy(model, target)
    for scale in (by_count, by_share):
        found = expected_denoising(model, target, scale)
        torch.testing.assert_close(found, truth)
        torch.testing.assert_close(gradient(found, model), gradient(truth, model))
    wrong = expected_denoising(model, target, without_factor)
    assert abs(float((wrong - truth).detach())) > 0.1
    direction = torch.cosine_similarity(gradient(wrong, model), gradient(truth, model), dim=0)
    assert float(direction) < 0.999


@pytest.mark.statistical
def test_masks_have_any_number_of_sites_alike() -> None:
    """Within five standard errors, 6e-7 a number."""
    masks = random_masks(torch.zeros(20_000, 5), torch.Generator().manual_seed(0))
    counts = torch.bincount(masks.sum(1), minlength=6)
    assert counts[0] == 0
    assert (counts[1:] - 4_000).abs().max() < 5 * math.sqrt(20_000 * 0.2 * 0.8)
    assert (masks.double().mean(0) - 0.6).abs().max() < 5 * 0.5 / math.sqrt(20_000)


@pytest.mark.parametrize("name", ["field", "three"])
def test_every_objective_is_solved_by_the_conditionals_of_the_target(name: str) -> None:
    """With the exact conditionals the gradient is zero, over all states for the two cross-entropies
    and for any batch for the other two; at another temperature it is not."""
    target = SMALL[name]
    model = Table(target)
    assert gradient(expected_denoising(model, target, by_count), model).abs().max() < 1e-12
    assert gradient(expected_cross_entropy(model, target), model).abs().max() < 1e-12
    assert (
        gradient(expected_denoising(model, target.scaled(0.5), by_count), model).abs().max() > 0.01
    )
    for kind in ("rerf", "lv"):
        loss = OBJECTIVES[kind].new_loss(Own(model, target, torch.Generator().manual_seed(0)))
        assert gradient(loss(0, 1.0), model).abs().max() < 1e-10
        assert gradient(loss(0, 0.5), model).abs().max() > 0.01
    paths = Own(model, target, torch.Generator().manual_seed(0)).paths(20)
    weights = paths.log_weight()
    assert float(weights.std()) < 1e-12
    assert float(weights.mean()) == pytest.approx(tcsis.exact.solve(target).log_z)


@pytest.mark.statistical
def test_states_are_chosen_by_their_self_normalised_weights() -> None:
    """Of 400 uniform states 40,000 choices follow softmax(log p̄ - log q) within five standard
    errors, 1e-6 a state; those at half of β, or all alike, do not."""
    target, n = SMALL["three"], 40_000
    x = torch.randint(3, (400, 3), generator=torch.Generator().manual_seed(1))
    log_q = torch.linspace(-4, -2, 400, **F64)
    replay = Replay(Own(Table(target), target, torch.Generator().manual_seed(0)), 400, 10)
    replay.paths = Paths(x, x.argsort(1), log_q, target.log_density(x))
    name = (x * torch.tensor([9, 3, 1])).sum(1)
    weights = target.log_density(x).exp() / log_q.exp()
    expected = torch.zeros(27, **F64).index_add(0, name, weights / weights.sum())

    def distance(beta: float) -> float:
        chosen, _ = replay.choose(n, 1, beta)
        seen = torch.bincount((chosen * torch.tensor([9, 3, 1])).sum(1), minlength=27) / n
        return float(((seen - expected).abs() / (expected / n).sqrt()).max())

    assert distance(1.0) < 5
    assert distance(0.5) > 10
    assert distance(0.0) > 10


def test_the_gradient_of_a_weighted_batch_is_that_under_the_target() -> None:
    """From any q the mean over its paths by self-normalised weights is that under p; the plain mean
    is not, nor that by weights which are not normalised.  With q = p all weights are the same."""
    target = SMALL["three"]
    model, other = Table(target), Table(target.scaled(0.3))
    with torch.no_grad():
        model.shift[0, 1] = 0.5
    x, order = all_states(target), torch.arange(3)
    log_q = log_path(other, x, order.expand(len(x), -1)).detach()
    log_w = target.log_density(x) - log_q
    masked = torch.tensor([True, False, True]).expand(len(x), -1)
    loss = denoising(model, x, masked)
    truth = gradient(target.log_density(x).softmax(0) @ loss, model)
    q = log_q.exp()
    weighted = q * (log_w - (log_q + log_w).logsumexp(0)).exp()
    torch.testing.assert_close(gradient(weighted @ loss, model), truth)
    plain = gradient(q @ loss, model)
    unnormalised = gradient((q * log_w.exp()) @ loss, model)
    assert (plain - truth).abs().max() > 0.05
    assert (unnormalised - truth).abs().max() > 0.05


@pytest.mark.parametrize("name", ["field", "three"])
def test_relative_entropy_and_log_variance_have_the_gradient_of_free_energy(
    name: str, awake: Callable[..., nn.Module]
) -> None:
    """E_q over all states and orders: REINFORCE is the gradient of Σ q (log q - log p̄), and that of
    the log-variance under q is twice as much."""
    target = SMALL[name]
    model, x = random_model(target, awake), all_states(target)
    orders = all_orders(target.num_sites)
    log_q = torch.cat([log_path(model, x, o.expand(len(x), -1)) for o in orders])
    log_density = target.log_density(x).repeat(len(orders))
    q = log_q.exp().detach() / len(orders)
    gap = log_density - log_q
    truth = gradient((log_q.exp() / len(orders)) @ -gap, model)
    reward = -gap.detach()
    reinforced = q @ ((reward - q @ reward) * log_q)
    variance = q @ (gap - q @ gap).square()
    torch.testing.assert_close(gradient(reinforced, model), truth)
    torch.testing.assert_close(gradient(variance, model), 2 * truth)
    turned = q @ ((q @ reward - reward) * log_q)
    assert (gradient(turned, model) - truth).abs().max() > 0.1


def test_the_target_is_heated_at_first() -> None:
    seen: list[float] = []
    target = SMALL["field"]
    config = MdnsConfig(first_beta=0.4, warm_share=0.5)
    loss = MdnsLoss(make_model(config, target, 0), target, config, torch.Generator())
    loss.loss = lambda step, beta: torch.tensor(seen.append(beta) or 0.0)
    for progress in (0.0, 0.25, 0.5, 1.0):
        loss(0, progress)
    assert seen == pytest.approx([0.4, 0.7, 1.0, 1.0])


# -- training --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", OBJECTIVES)
def test_every_objective_trains(kind: str) -> None:
    target = Ising(side=3, beta=0.4)
    config = QUICK.model_copy(update={"objective": OBJECTIVES[kind]})
    before = mdns.Mdns(target, config, make_model(config, target, seed=0)).sample(1_000)
    model = mdns.train(target, config=config, seed=0, progress=False)
    after = model.sample(1_000)
    assert before.ess < 0.6
    assert after.ess > 0.85
    assert after.log_z == pytest.approx(tcsis.exact.solve(target).log_z, abs=0.05)


def test_training_on_a_critical_lattice() -> None:
    target = Ising(side=4, beta=0.4407)
    model = mdns.train(target, config=QUICK, seed=0, progress=False)
    draws = model.sample(2_000)
    assert draws.ess > 0.7
    assert draws.log_z == pytest.approx(tcsis.exact.solve(target).log_z, abs=0.05)
    assert model.seconds > 0
    assert model.num_density_calls == 200 / 10 * 256
    assert draws.num_network_calls == 2_000 * 16
    few = model.sample(2_000, calls=8)
    assert few.num_network_calls == 2_000 * 8
    assert few.ess < draws.ess


@pytest.mark.parametrize("name", ["potts", "graph", "open"])
def test_every_kind_of_target_trains(name: str) -> None:
    target = {
        "potts": Potts(side=2, num_values=3, beta=0.8),
        "graph": SherringtonKirkpatrick(8, beta=2.0, seed=1),
        "open": Ising(side=(3, 4), beta=0.5, field=0.2, boundary="open"),
    }[name]
    config = QUICK.model_copy(update={"num_evaluations": 2, "num_evaluated": 100})
    model = mdns.train(target, config=config, progress=False)
    before = mdns.Mdns(target, config, make_model(config, target, seed=0)).sample(1_000)
    after = model.sample(1_000)
    assert 1 - after.ess < 0.5 * (1 - before.ess)
    assert abs(after.log_z - tcsis.exact.solve(target).log_z) < 0.1
    assert [record["step"] for record in model.history] == [100, 200]


def no_neighbours(x: Tensor) -> Tensor:
    return torch.where((x & x.roll(1, -1)).any(-1), -torch.inf, 0.5 * x.sum(-1).double())


def test_forbidden_states_have_no_weight_and_are_learned_of() -> None:
    target = from_callable(no_neighbours, 6, num_values=2)
    before = mdns.Mdns(target, QUICK, make_model(QUICK, target, seed=0)).sample(2_000)
    draws = mdns.train(target, config=QUICK, steps=500, progress=False).sample(2_000)
    assert before.ess < 0.3
    assert draws.ess > 0.75
    assert draws.log_z == pytest.approx(tcsis.exact.solve(target).log_z, abs=0.05)


def test_given_some_sites() -> None:
    target = Ising(3, 0.3, field=0.2).given({0: 1, 1: 0, 5: 1})
    draws = mdns.train(target, config=QUICK, steps=50, progress=False).sample(1_000)
    assert not target.known.contradicted(draws.x).any()
    assert draws.log_z == pytest.approx(tcsis.exact.solve(target).log_z, abs=0.1)


def test_same_seed_same_draws_and_files(tmp_path: Path) -> None:
    target = Potts(side=2, num_values=3, beta=0.4)
    config = QUICK.model_copy(update={"num_evaluations": 1, "objective": OBJECTIVES["lv"]})
    first, again, other = (
        mdns.train(target, config=config, seed=seed, steps=5, progress=False) for seed in (1, 1, 2)
    )
    draws = first.sample(100, seed=4)
    assert torch.equal(draws.log_weight, again.sample(100, seed=4).log_weight)
    assert not torch.equal(draws.log_weight, other.sample(100, seed=4).log_weight)
    assert not torch.equal(draws.x, first.sample(100, seed=5).x)
    first.save(tmp_path)
    loaded = mdns.load(tmp_path)
    assert (loaded.config, loaded.history) == (first.config, first.history)
    assert loaded.config.objective == LogVariance()
    assert torch.equal(draws.log_weight, loaded.sample(100, seed=4).log_weight)
    with pytest.raises(ValueError, match="expected the target it was trained on"):
        mdns.load(tmp_path, target=Potts(side=2, num_values=3, beta=0.5))
    with pytest.raises(ValueError, match="holds no model of VAN"):
        tcsis.peers.van.load(tmp_path)


def test_by_name_beside_other_methods(tmp_path: Path) -> None:
    target = Ising(side=3, beta=0.4)
    found = tcsis.compare(target, ["mdns", "gibbs"], n=2_000, steps=150, progress=False)
    assert found.result.methods[0].training_seconds > 0
    found.report(tmp_path / "report.html")
    assert "mdns" in (tmp_path / "report.html").read_text()
    assert tcsis.judge(found.methods["mdns"], target).level.startswith("trusted")


def test_refusals() -> None:
    target = Ising(side=3, beta=0.4)
    model = mdns.Mdns(target, QUICK, make_model(QUICK, target, seed=0))
    with pytest.raises(ValueError, match="calls is 10: expected at most one a site, 9 of them"):
        model.sample(10, calls=10)
    with pytest.raises(ValueError, match="calls is 0: expected an integer"):
        model.sample(10, calls=0)
    with pytest.raises(ValueError, match="expected one of 'wdce', 'ce', 'rerf', 'lv'"):
        MdnsConfig(objective={"kind": "kl"})
    with pytest.raises(ValueError, match="has no setting 'num_draws'"):
        MdnsConfig(objective={"kind": "lv", "num_draws": 3})
    config = QUICK.model_copy(update={"learning_rate": 1e30})
    with pytest.raises(DivergedError, match="lower learning_rate"):
        mdns.train(target, config=config, progress=False)
    ring = from_callable(no_neighbours, 6, num_values=2)
    config = QUICK.model_copy(update={"objective": OBJECTIVES["rerf"]})
    with pytest.raises(ValueError, match="take the objective wdce"):
        mdns.train(ring, config=config, progress=False)
    nothing = from_callable(lambda x: torch.full((len(x),), -torch.inf), 40, num_values=3)
    with pytest.raises(ValueError, match="forbids all 256 states drawn"):
        mdns.train(nothing, config=QUICK, progress=False)
