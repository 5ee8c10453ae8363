"""Skip terms: exact to the order they claim, by enumeration; and the fit of their coefficients."""

import itertools

import networkx
import pytest
import torch
from torch import Tensor

from tcsis import exact
from tcsis.learn import presets
from tcsis.learn.models.heads import FormHeads, field_terms
from tcsis.learn.models.marginal import MarginalModel
from tcsis.learn.models.skips import (
    NUM_KNOTS,
    Density,
    FirstOrder,
    Knots,
    RunningMean,
    fading,
    falling,
    hat_functions,
)
from tcsis.noise import UniformNoise
from tcsis.targets import Ising, Pairwise, Potts, SherringtonKirkpatrick

DOUBLE = {"dtype": torch.float64}


def graph() -> Pairwise:
    """Sites of different degrees, couplings of both signs, fields."""
    edges = torch.tensor(sorted(networkx.lollipop_graph(4, 3).edges))
    generator = torch.Generator().manual_seed(0)
    tables = torch.randn(len(edges), 2, 2, generator=generator, **DOUBLE)
    return Pairwise(edges, tables, torch.randn(7, 2, generator=generator, **DOUBLE), **DOUBLE)


TARGETS: dict[str, Pairwise] = {
    "ising": Ising(3, 0.5, 0.2, **DOUBLE),
    "potts": Potts((2, 3), 3, 0.9, **DOUBLE),
    "graph": graph(),
    "complete": SherringtonKirkpatrick(6, 1.0, seed=1, **DOUBLE),
}


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> Pairwise:
    return TARGETS[request.param]


def some_states(target: Pairwise, n: int = 40) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(target.num_values, (n, target.num_sites), generator=generator)


def order(errors: list[float]) -> float:
    """The power of t by which errors at t and 2t differ."""
    return float(torch.tensor(errors[1] / errors[0]).log2())


# -- terms ----------------------------------------------------------------------------------------


def test_first_order_is_first_order(target: Pairwise) -> None:
    """The error of log p̄ is of order t, and that of the first-order term of order t²."""
    noise, x, truth = (
        UniformNoise(target.num_values),
        some_states(target),
        exact.Enumeration(target),
    )
    errors: dict[str, list[float]] = {"density": [], "first": []}
    for time in (5e-4, 1e-3):
        t = torch.full(x.shape, time, **DOUBLE)
        alpha = noise.alpha(x, t)
        log_p = truth.log_marginal(noise, x, t) + truth.log_z
        errors["density"].append(float((Density(target)(x, alpha) - log_p).abs().max()))
        errors["first"].append(float((FirstOrder(target, noise)(x, alpha) - log_p).abs().max()))
    assert order(errors["density"]) == pytest.approx(1, abs=0.1)
    assert order(errors["first"]) == pytest.approx(2, abs=0.1)


# -- coefficients ---------------------------------------------------------------------------------


def test_hat_functions_share_one() -> None:
    alpha = torch.linspace(0, 1, 101, **DOUBLE)
    hats = hat_functions(alpha, NUM_KNOTS)
    torch.testing.assert_close(hats.sum(1), torch.ones(101, **DOUBLE))
    assert bool(((hats >= 0) & (hats <= 1)).all())
    line = torch.linspace(2, 5, NUM_KNOTS, **DOUBLE)
    torch.testing.assert_close(hats @ line, 2 + 3 * alpha)
    knots = torch.linspace(0, 1, NUM_KNOTS, **DOUBLE)
    assert torch.equal(hat_functions(knots, NUM_KNOTS), torch.eye(NUM_KNOTS, **DOUBLE))


def test_a_fit_finds_coefficients_that_bend_little() -> None:
    """Terms far from zero, as energies are, and two of them nearly alike."""
    generator = torch.Generator().manual_seed(0)
    n, knots = 20_000, Knots(fading(NUM_KNOTS, 3)).double()
    alpha = torch.rand(n, generator=generator, **DOUBLE)
    terms = 80 + 3 * torch.randn(n, 3, generator=generator, **DOUBLE)
    terms[:, 1] = terms[:, 0] + 0.3 * terms[:, 1]
    late = (1 - alpha)[:, None]
    wanted = (torch.cat([1 - 0.5 * late, 0.3 * late, 0.2 * late], 1) * terms).sum(1) + 7 * late[
        :, 0
    ]
    ones = torch.ones(n, **DOUBLE)
    knots.fit(alpha, terms, wanted - knots(alpha, terms), ones, 1.0)
    with torch.no_grad():
        assert float((knots(alpha, terms) - wanted).std()) < 0.02
        # the term that is right as t → 0 is left alone there
        torch.testing.assert_close(knots(torch.ones(n, **DOUBLE), terms), terms[:, 0])


def test_falling_choices_have_the_least_sum() -> None:
    """Against all sequences that never rise."""
    for seed in range(20):
        losses = torch.randn(5, 4, generator=torch.Generator().manual_seed(seed))
        sequences = [s for s in itertools.product(range(4), repeat=5) if list(s) == sorted(s)[::-1]]
        sums = [
            float(sum(losses[knot, choice] for knot, choice in enumerate(s))) for s in sequences
        ]
        chosen = falling(losses).tolist()
        assert chosen == sorted(chosen)[::-1]
        best = float(sum(losses[knot, choice] for knot, choice in enumerate(chosen)))
        assert best == pytest.approx(min(sums), abs=1e-6)


def test_a_crowd_takes_over_where_it_is_better() -> None:
    """With exact joint densities at β = 0.6: belief propagation alone at first, the crowd alone in
    the noise, and a denoiser that is nowhere much worse than the better of the two."""
    target = Ising(3, 0.6, 0.05, **DOUBLE)
    network = {"kind": "lattice", "width": 8, "depth": 2}
    config = presets.tiny(target, "unbiased").changed(method={"network": network})
    model = config.new_model(target, seed=0).double().requires_grad_(False)
    assert isinstance(model, MarginalModel) and model.crowd is not None
    assert isinstance(model.heads, FormHeads)
    truth, generator = exact.Enumeration(target), torch.Generator().manual_seed(4)
    model.crowd.gather(truth.draw(len(model.crowd.states), generator).long(), truth.log_z)
    x_0 = truth.draw(3_000, generator).long()
    t = torch.rand(len(x_0), 1, generator=generator, **DOUBLE).expand(x_0.shape)
    x = model.noise.draw(x_0, t, generator=generator)
    log_p = truth.log_marginal(model.noise, x, t) + truth.log_z
    log_d = truth.denoiser(model.noise, x, t)
    sites = torch.randint(9, (len(x), 4), generator=generator)
    model.fit_skips(x, t, log_p)
    chosen = log_d.gather(1, sites[..., None].expand(-1, -1, 2))
    model.fit_fields(x, t, sites, log_p[:, None, None] + chosen)
    coefficients = model.heads.field_coefficients.values
    shares = coefficients[:, 2]
    assert shares[0] == 1 and shares[-1] == 0
    assert torch.equal(shares, shares.sort(descending=True).values)
    torch.testing.assert_close(model.coefficients.values[:, 1:], coefficients[:, 1:])
    terms = field_terms(model.fields, x, model.alpha(x, t)).unbind(-1)
    own, bins = model.noise.log_kernel(x, t), (8 * t[:, 0]).long()

    def error(logits: Tensor) -> Tensor:
        gap = ((own + logits).softmax(-1) - log_d.exp()).square().mean((1, 2))
        return torch.stack([gap[bins == k].mean().sqrt() for k in range(8)])

    better = torch.minimum(*(error(term) for term in terms))
    assert bool((error(model.site_logits(x, t)) < 1.2 * better + 0.002).all())


def test_noise_in_estimates_averages_out() -> None:
    """log p̂ is too low by 1/2 on average here, p̂ is right: so is the level after the fit."""
    target = Ising(3, 0.4, **DOUBLE)
    config = presets.tiny(target, "unbiased").changed(
        method={"preconditioning": {"kind": "density"}}
    )
    model = config.new_model(target, seed=0).double().requires_grad_(False)
    assert isinstance(model, MarginalModel)
    x = some_states(target, 40_000)
    generator = torch.Generator().manual_seed(3)
    t = torch.rand(len(x), 1, generator=generator, **DOUBLE).expand(x.shape)
    wanted = model.skip(x, model.alpha(x, t)) + 20 * (1 - model.alpha(x, t).mean(1))
    noisy = wanted - 0.5 + torch.randn(len(x), generator=generator, **DOUBLE)
    model.fit_skips(x, t, noisy)
    far = t[:, 0] > 0.1  # at t = 0 the coefficients are held
    gap = (model.log_marginal(x, t) - wanted)[far]
    # ratios above e³, 1 in 500 here, are cut
    assert abs(float(gap.mean())) < 0.05
    assert float(gap.std()) < 0.1


def test_running_means_follow_training_and_nothing_else() -> None:
    """The mean of a batch at its times; later ones move it little, and evaluation not at all."""
    mean = RunningMean(NUM_KNOTS, 3)
    h = torch.randn(64, 5, 3, generator=torch.Generator().manual_seed(0))
    alpha = torch.full((64,), 0.5)
    with torch.no_grad():
        assert bool((mean(h, alpha) == 0).all())
    torch.testing.assert_close(mean(h, alpha)[0], h.mean((0, 1)))
    for _ in range(200):
        mean(h, alpha)
    moved = mean(h + 1, alpha)[0] - h.mean((0, 1))
    torch.testing.assert_close(moved, torch.full((3,), 0.05), rtol=0, atol=1e-3)
    mean.eval()
    torch.testing.assert_close(mean(h + 100, alpha)[0], h.mean((0, 1)) + 0.05, rtol=0, atol=1e-3)
    assert bool((mean.mean[0] == 0).all())  # no such times were seen
