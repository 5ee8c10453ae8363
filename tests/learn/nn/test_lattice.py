"""The lattice network: translations, boundaries, gains of sites, and time."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tcsis.learn.nn.lattice import LatticeNet

CHANNELS, WIDTH = 3, 6


def inputs(shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    d = torch.Size(shape).numel()
    z = torch.randn(4, d, CHANNELS, generator=generator, dtype=torch.float64)
    return z, torch.rand(4, d, generator=generator, dtype=torch.float64)


def roll(y: Tensor, shape: tuple[int, ...]) -> Tensor:
    """By one along the first axis, two along the second, and so on."""
    axes = tuple(range(1, len(shape) + 1))
    return y.unflatten(1, shape).roll(axes, axes).flatten(1, len(shape))


def wander(network: LatticeNet, shape: tuple[int, ...]) -> float:
    """How far the network is from commuting with translations."""
    z, alpha = inputs(shape)
    out = network(z, alpha)
    assert out.shape == (4, torch.Size(shape).numel(), WIDTH)
    moved = network(roll(z, shape), roll(alpha, shape))
    assert (out - roll(out, shape)).abs().max() > 0.1
    return (moved - roll(out, shape)).abs().max().item()


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4)])
def test_periodic_lattice_commutes_with_translations(shape: tuple, awake: Callable) -> None:
    assert wander(awake(LatticeNet(shape, CHANNELS, WIDTH, depth=2)), shape) < 1e-12


@pytest.mark.parametrize("shape", [(5,), (3, 4)])
def test_open_lattice_does_not(shape: tuple, awake: Callable) -> None:
    network = awake(LatticeNet(shape, CHANNELS, WIDTH, depth=2, periodic=False))
    assert wander(network, shape) > 0.1


@pytest.mark.parametrize(("periodic", "read"), [(True, [0, 1, 6]), (False, [0, 1])])
def test_who_reads_the_first_site(periodic: bool, read: list[int], awake: Callable) -> None:
    """With one layer and nothing pooled, its neighbours; across the boundary only if it wraps."""
    network = awake(LatticeNet((7,), CHANNELS, WIDTH, depth=1, periodic=periodic))
    torch.nn.init.zeros_(network.pooled[0].weight)
    z, alpha = inputs((7,))
    other = z.clone()
    other[:, 0] += 1
    changed = (network(z, alpha) != network(other, alpha)).any(-1).any(0)
    assert changed.nonzero().squeeze(1).tolist() == read


def test_rows_are_in_row_major_order(awake: Callable) -> None:
    """On a 3×4 box, site 5 = (1, 1) is read by the sites of rows 0..2 and columns 0..2."""
    network = awake(LatticeNet((3, 4), CHANNELS, WIDTH, depth=1, periodic=False))
    torch.nn.init.zeros_(network.pooled[0].weight)
    z, alpha = inputs((3, 4))
    other = z.clone()
    other[:, 5] += 1
    changed = (network(z, alpha) != network(other, alpha)).any(-1).any(0)
    assert changed.nonzero().squeeze(1).tolist() == [0, 1, 2, 4, 5, 6, 8, 9, 10]


def test_gains_of_sites_break_translations(awake: Callable) -> None:
    shape = (3, 4)
    network = awake(LatticeNet(shape, CHANNELS, WIDTH, depth=2, sites=True))
    assert wander(network, shape) > 0.01
    for gains in network.gains:
        torch.nn.init.zeros_(gains)
    assert wander(network, shape) < 1e-12


def test_new_networks_do_not_read_time_and_wake_up(awake: Callable) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = LatticeNet((3, 4), CHANNELS, WIDTH, depth=2).double()
    z, alpha = inputs((3, 4))
    assert torch.equal(network(z, alpha), network(z, alpha / 2))
    network(z, alpha).square().sum().backward()
    assert all(layer.weight.grad.abs().max() > 0 for layer in network.film)
    awake(network)
    assert not torch.allclose(network(z, alpha), network(z, alpha / 2), atol=1e-2)


def test_four_dimensions_are_refused() -> None:
    with pytest.raises(ValueError, match="one to three dimensions"):
        LatticeNet((2, 2, 2, 2), CHANNELS)
