"""Belief propagation: exact on trees, and on graphs with loops to the order it claims."""

import networkx
import pytest
import torch
from torch import Tensor

from tcsis import exact
from tcsis.learn.models.bethe import Bethe, slots_back
from tcsis.noise import UniformNoise
from tcsis.targets import Ising, Pairwise, Potts, SherringtonKirkpatrick

DOUBLE = {"dtype": torch.float64}


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def tree(num_values: int) -> Pairwise:
    """Tables that are not symmetric, sites of different degrees, and one by itself."""
    edges = torch.tensor(sorted(networkx.random_labeled_tree(7, seed=3).edges))
    tables = torch.randn(len(edges), num_values, num_values, generator=seeded(0), **DOUBLE)
    fields = torch.randn(8, num_values, generator=seeded(1), **DOUBLE)
    return Pairwise(edges, tables, fields, constant=1.3, **DOUBLE)


def errors(target: Pairwise, noise: UniformNoise, x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """Of log p̄_t, (b,), and of what the other sites say on a site, (b, d, v)."""
    truth, bethe, alpha = exact.Enumeration(target), Bethe(target, noise), noise.alpha(x, t)
    log_p = truth.log_marginal(noise, x, t) + truth.log_z
    gap = truth.denoiser(noise, x, t) - noise.log_kernel(x, t) - bethe.cavity(x, alpha)
    return bethe(x, alpha) - log_p, gap - gap.mean(-1, keepdim=True)


@pytest.mark.parametrize("num_values", [2, 3])
def test_trees_are_exact_at_all_times(num_values: int) -> None:
    target, noise = tree(num_values), UniformNoise(num_values)
    x = torch.randint(num_values, (20, 8), generator=seeded(2))
    t = torch.rand(20, 8, generator=seeded(3), **DOUBLE)
    t[0], t[1, :3] = 1, 1
    of_marginal, of_cavity = errors(target, noise, x, t)
    assert float(of_marginal.abs().max()) < 1e-10
    assert float(of_cavity.abs().max()) < 1e-10


@pytest.mark.parametrize(
    ("target", "loop"),
    [
        (Ising(3, 0.5, 0.2, **DOUBLE), 3),
        (Ising(4, 0.5, 0.2, **DOUBLE), 4),
        (Potts((2, 3), 3, 0.9, **DOUBLE), 3),
        (SherringtonKirkpatrick(6, 1.0, seed=1, **DOUBLE), 3),
    ],
)
def test_loops_count_from_the_power_of_their_length_on(target: Pairwise, loop: int) -> None:
    """log p̄_t to t^L, and the field, which is a loop less one site, to t^(L-1)."""
    noise = UniformNoise(target.num_values)
    x = torch.randint(target.num_values, (40, target.num_sites), generator=seeded(1))
    found = []
    for time in (2e-4, 4e-4):
        t = torch.full(x.shape, time, **DOUBLE)
        found.append([float(error.abs().max()) for error in errors(target, noise, x, t)])
    orders = (torch.tensor(found[1]) / torch.tensor(found[0])).log2()
    assert orders.tolist() == pytest.approx([loop, loop - 1], abs=0.15)


def test_without_noise_it_is_the_density() -> None:
    """Also where couplings are strong and numbers small."""
    target = Ising(4, 9.0, 3.0)
    x = torch.randint(2, (40, 16), generator=seeded(1))
    bethe = Bethe(target, UniformNoise(2))
    torch.testing.assert_close(bethe(x, torch.ones(x.shape)), target.log_density(x))
    for alpha in (0.0, 0.3, 1.0):
        times = torch.full(x.shape, alpha)
        assert bool(bethe(x, times).isfinite().all())
        assert bool(bethe.cavity(x, times).isfinite().all())


def test_slots_lead_back() -> None:
    graph = networkx.lollipop_graph(4, 3)
    edges = torch.tensor(sorted(graph.edges))
    target = Pairwise(edges, torch.ones(len(edges), 2, 2), torch.zeros(8, 2))
    neighbours, _ = target.neighbour_tables
    back = slots_back(neighbours)
    here = torch.arange(8).repeat_interleave(neighbours.shape[1])
    assert torch.equal(neighbours.flatten()[back], here)
    assert torch.equal(here[back], neighbours.flatten())
    assert torch.equal(back[back], torch.arange(len(back)))
