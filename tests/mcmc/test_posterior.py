"""Walkers in fields of their own: both engines leave each its own distribution invariant."""

import pytest
import torch
from scipy.stats import chi2

from tcsis.judging.metrics import state_index
from tcsis.mcmc import posterior
from tcsis.mcmc.compiled import PairwiseArrays, make_streams
from tcsis.mcmc.compiled.tilted import sweep_tilted
from tcsis.noise import UniformNoise
from tcsis.targets import (
    Pairwise,
    Potts,
    SpinGlass,
    Target,
    Tilted,
    counting,
    from_callable,
)

GLASS = SpinGlass((2, 2), 0.6, "gaussian", seed=3)
POTTS = Potts((2, 2), 3, 0.7)
TABLES = Pairwise(
    [[0, 1], [1, 2], [0, 2]],
    torch.randn(3, 3, 3, generator=torch.Generator().manual_seed(0)),
    torch.randn(3, 3, generator=torch.Generator().manual_seed(1)),
)


def black_box(target: Target) -> Target:
    return from_callable(target.log_density, target.num_sites, target.num_values)


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [1.0, 0.4])
@pytest.mark.parametrize("engine", ["compiled", "torch"])
@pytest.mark.parametrize("target", [GLASS, POTTS, TABLES], ids=["glass", "potts", "tables"])
def test_walkers_follow_their_own_posteriors(target: Pairwise, engine: str, scale: float) -> None:
    """Three fields, thousands of walkers each, 20 sweeps; 36 χ² tests at level 1e-5: one false
    alarm in 2,700 choices of the seed."""
    generator = torch.Generator().manual_seed(0)
    d, v, n = target.num_sites, target.num_values, 20_000 if engine == "compiled" else 3_000
    fields = torch.randn(3, 1, d, v, generator=generator)
    moved = target if engine == "compiled" else black_box(target)
    x = torch.randint(v, (3, n, d), generator=generator)
    x = posterior.sweep_walkers(moved, fields, x, 20, generator, scale)
    states = torch.cartesian_prod(*[torch.arange(v)] * d)
    log_density = scale * target.to(dtype=torch.float64).log_density(states)
    for walkers, field in zip(x, fields[:, 0].double(), strict=True):
        tilt = field.expand(len(states), d, v).gather(-1, states[..., None]).sum((-2, -1))
        expected = n * (log_density + tilt).softmax(0)
        counts = torch.bincount(state_index(walkers, v), minlength=len(states)).double()
        large = expected >= 5
        statistic = float(((counts - expected) ** 2 / expected)[large].sum())
        assert statistic < chi2.isf(1e-5, int(large.sum()))


@pytest.mark.parametrize("target", [GLASS, POTTS], ids=["glass", "potts"])
def test_infinite_fields_hold_their_sites(target: Pairwise) -> None:
    """A site at time 0 is known: its walkers never leave the value, the others move."""
    noise = UniformNoise(target.num_values)
    x_t = torch.randint(target.num_values, (50, 4), generator=torch.Generator().manual_seed(0))
    t = torch.tensor([0.0, 1.0, 0.0, 1.0]).expand(50, 4)
    x = x_t[:, None].repeat(1, 40, 1)
    fields = noise.log_kernel(x_t, t)[:, None]
    moved = posterior.sweep_walkers(target, fields, x, 5, torch.Generator().manual_seed(1))
    assert torch.equal(moved[..., ::2], x[..., ::2])
    assert (moved[..., 1::2] != x[..., 1::2]).double().mean() > 0.2


def test_walkers_do_not_depend_on_their_company() -> None:
    model = PairwiseArrays.of(GLASS)
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(2, (300, 4), generator=generator).to(torch.uint8).numpy()
    fields = torch.randn(300, 4, 2, generator=generator).numpy()
    streams = make_streams(3, 300)
    together, alone = x.copy(), x[170:171].copy()
    own = streams[:, 170:171].copy()
    sweep_tilted(model, together, streams, 7, fields)
    sweep_tilted(model, alone, own, 7, fields[170:171])
    assert (together[170] == alone[0]).all()


def test_seeds_counts_and_refusals() -> None:
    x = torch.zeros(6, 4, dtype=torch.long)
    fields = torch.zeros(4, 2)
    with counting(GLASS) as cost:
        a, b = (
            posterior.sweep_walkers(GLASS, fields, x, 3, torch.Generator().manual_seed(5))
            for _ in range(2)
        )
    assert torch.equal(a, b)
    assert a.dtype == x.dtype
    assert cost.densities == 2 * 3 * 6
    with pytest.raises(ValueError, match="fields has shape"):
        sweep_tilted(
            PairwiseArrays.of(GLASS), x.to(torch.uint8).numpy(), make_streams(0, 6), 1,
            torch.zeros(6, 4, 3).numpy(),
        )  # fmt: skip
    with pytest.raises(ValueError, match="fields has shape"):
        Tilted(GLASS, torch.zeros(4, 3))
