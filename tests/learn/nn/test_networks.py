"""The networks: shapes and sizes, who may read whom, and the symmetries that are built in."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

from tcsis.learn.nn.dit import DiT, chain_dit, graph_dit, lattice_dit, set_dit
from tcsis.learn.nn.equivariant import Hollow, antisymmetric
from tcsis.learn.nn.features import periodic_angles, rotary_angles, rotate, time_features
from tcsis.learn.nn.heads import PooledHead, SiteHead

NUM_SITES, CHANNELS = 12, 3
RING = torch.eye(NUM_SITES).roll(1, 0).bool() | torch.eye(NUM_SITES).roll(-1, 0).bool()
TRUNKS: dict[str, Callable[[], nn.Module]] = {
    "torus": lambda: lattice_dit((3, 4), CHANNELS),
    "box": lambda: lattice_dit((3, 4), CHANNELS, periodic=False),
    "cube": lambda: lattice_dit((2, 3, 2), CHANNELS),
    "chain": lambda: chain_dit(NUM_SITES, CHANNELS),
    "set": lambda: set_dit(NUM_SITES, CHANNELS),
    "graph": lambda: graph_dit(RING, CHANNELS),
    "hollow": lambda: Hollow(NUM_SITES, CHANNELS),
}


@pytest.fixture(autouse=True)
def _seed() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def awake(network: nn.Module) -> nn.Module:
    """The network away from its zero start, where blocks do nothing and nothing could be seen."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return network


def inputs(num_sites: int = NUM_SITES, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    z = torch.randn(5, num_sites, CHANNELS, dtype=dtype)
    return z, torch.rand(5, num_sites, dtype=dtype)


def reach(trunk: nn.Module, site: int) -> Tensor:
    """Which sites' outputs change with the input of one site, (d,)."""
    z, alpha = inputs()
    other = z.clone()
    other[:, site] += 1
    return (trunk(z, alpha) != trunk(other, alpha)).any(-1).any(0)


# -- features --------------------------------------------------------------------------------------


def test_time_features_tell_times_apart_at_both_ends() -> None:
    alpha = torch.tensor([0.0, 0.01, 0.5, 0.99, 0.999, 0.9999, 1.0])
    features = time_features(alpha, 32)
    assert features.shape == (7, 32)
    assert features.isfinite().all()
    distance = torch.cdist(features, features) + 10 * torch.eye(7)
    assert distance.min() > 0.05
    assert distance[3, 4] > 1


@pytest.mark.parametrize("num_axes", [1, 2, 3])
def test_rotary_products_depend_on_differences_of_position(num_axes: int) -> None:
    positions = torch.randint(20, (6, num_axes))
    q, k = torch.randn(2, 6, 16, dtype=torch.float64)
    products = [
        rotate(q, angles) @ rotate(k, angles).T
        for angles in (rotary_angles(positions, 16), rotary_angles(positions + 3, 16))
    ]
    torch.testing.assert_close(*products)
    assert not torch.allclose(products[0], q @ k.T)


@pytest.mark.parametrize("shape", [(1,), (2,), (7,), (4, 10), (3, 4, 5)])
def test_periodic_angles_close(shape: tuple[int, ...]) -> None:
    positions = torch.randint(20, (6, len(shape)))
    angles = periodic_angles(positions, shape, 16)
    assert angles.shape == (6, 8)
    assert torch.equal(angles, periodic_angles(positions + torch.tensor(shape), shape, 16))


def test_periodic_angles_of_different_sites_differ() -> None:
    positions = torch.cartesian_prod(torch.arange(9), torch.arange(10))
    angles = periodic_angles(positions, (9, 10), 16)
    turned = torch.cat([angles.cos(), angles.sin()], dim=-1)
    assert (torch.cdist(turned, turned) + torch.eye(90)).min() > 0.5


# -- trunks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TRUNKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_trunks_keep_their_contract(name: str, dtype: torch.dtype) -> None:
    trunk = awake(TRUNKS[name]()).to(dtype)
    assert sum(p.numel() for p in trunk.parameters()) < 1_000_000
    out = trunk(*inputs(dtype=dtype))
    assert out.shape == (5, NUM_SITES, 64)
    assert out.dtype == dtype
    assert out.isfinite().all()


@pytest.mark.parametrize("name", TRUNKS)
def test_every_weight_learns(name: str) -> None:
    trunk = awake(TRUNKS[name]())
    trunk(*inputs()).square().sum().backward()
    for key, parameter in trunk.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.numel() == 0 or parameter.grad.abs().max() > 0, key


@pytest.mark.parametrize("name", sorted(TRUNKS.keys() - {"hollow"}))
def test_new_blocks_change_nothing_and_wake_up(name: str) -> None:
    trunk = TRUNKS[name]()
    assert isinstance(trunk, DiT)
    z, alpha = inputs()
    out = trunk(z, alpha)
    assert torch.equal(out, trunk.embed(z))
    out.square().sum().backward()
    gradients = [p.grad for key, p in trunk.named_parameters() if "modulation" in key]
    assert all(gradient is not None and gradient.abs().max() > 0 for gradient in gradients)


@pytest.mark.parametrize("name", TRUNKS)
def test_time_matters(name: str) -> None:
    trunk = awake(TRUNKS[name]())
    z, alpha = inputs()
    assert not torch.allclose(trunk(z, alpha), trunk(z, alpha / 2), atol=1e-2)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("shape", [(7,), (4, 4), (5, 8), (2, 3, 4)])
def test_torus_commutes_with_translations(
    shape: tuple[int, ...], dtype: torch.dtype, tolerance: float
) -> None:
    trunk = awake(lattice_dit(shape, CHANNELS)).to(dtype)
    z, alpha = inputs(torch.Size(shape).numel(), dtype)
    axes = tuple(range(1, len(shape) + 1))

    def roll(y: Tensor) -> Tensor:  # by one along the first axis, two along the second, ...
        return y.unflatten(1, shape).roll(axes, axes).flatten(1, len(shape))

    out = trunk(z, alpha)
    scale = out.abs().max().item()
    torch.testing.assert_close(
        trunk(roll(z), roll(alpha)), roll(out), rtol=0, atol=tolerance * scale
    )
    assert (out - roll(out)).abs().max() > 0.1 * scale


def test_open_box_does_not_commute_with_translations() -> None:
    trunk = awake(lattice_dit((8,), CHANNELS, periodic=False))
    z, alpha = inputs(8)
    assert not torch.allclose(trunk(z.roll(1, 1), alpha), trunk(z, alpha).roll(1, 1), atol=1e-2)


@pytest.mark.parametrize("depth", [1, 2])
def test_graph_reads_only_neighbours(depth: int) -> None:
    trunk = awake(graph_dit(RING, CHANNELS, depth=depth, num_registers=0))
    distance = torch.arange(NUM_SITES).minimum(NUM_SITES - torch.arange(NUM_SITES))
    assert torch.equal(reach(trunk, site=0), distance <= depth)


def test_registers_carry_news_across_the_graph() -> None:
    assert reach(awake(graph_dit(RING, CHANNELS, depth=1)), site=0).sum() == 3
    assert reach(awake(graph_dit(RING, CHANNELS, depth=2)), site=0).all()


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="multiple of 8"):
        set_dit(NUM_SITES, CHANNELS, width=36)
    with pytest.raises(ValueError, match="a pair an axis"):
        lattice_dit((2, 2, 2), CHANNELS, width=16, heads=4)
    with pytest.raises(ValueError, match="expected bool"):
        graph_dit(RING.float(), CHANNELS)
    with pytest.raises(ValueError, match="even number"):
        time_features(torch.rand(3), 5)


# -- heads -----------------------------------------------------------------------------------------


def test_heads_start_at_zero() -> None:
    h = torch.randn(5, NUM_SITES, 64)
    assert torch.equal(SiteHead(64, 3)(h), torch.zeros(5, NUM_SITES, 3))
    assert torch.equal(PooledHead(64, 32)(h), torch.zeros(5))


def test_pooled_head_forgets_the_order_of_sites() -> None:
    head = awake(PooledHead(64, 32))
    h = torch.randn(5, NUM_SITES, 64)
    torch.testing.assert_close(head(h), head(h[:, torch.randperm(NUM_SITES)]))
    head(h).sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in head.parameters())


# -- local equivariance ----------------------------------------------------------------------------


def test_hollow_features_read_all_sites_but_their_own() -> None:
    trunk = awake(Hollow(NUM_SITES, CHANNELS))
    z, alpha = inputs()
    z.requires_grad_()
    h = trunk(z, alpha)
    for i in range(NUM_SITES):
        (gradient,) = torch.autograd.grad(h[:, i].square().sum(), z, retain_graph=True)
        read = (gradient != 0).all(-1).all(0)
        assert torch.equal(read, torch.arange(NUM_SITES) != i)
        assert (gradient[:, i] == 0).all()


@pytest.mark.parametrize("num_values", [2, 3])
def test_undoing_a_change_costs_what_making_it_gained(num_values: int) -> None:
    trunk = awake(Hollow(NUM_SITES, num_values)).double()
    embed, alpha = torch.randn(num_values, trunk.width).double(), torch.rand(5, NUM_SITES).double()
    x = torch.randint(num_values, (5, NUM_SITES))

    def gains(x: Tensor) -> Tensor:
        z = torch.nn.functional.one_hot(x, num_values).double()
        return antisymmetric(trunk(z, alpha), embed, x)

    gain = gains(x)
    assert gain.abs().max() > 0.1
    for i in range(NUM_SITES):
        for v in range(num_values):
            changed = x.clone()
            changed[:, i] = v
            back = gains(changed)[:, i].gather(1, x[:, i : i + 1]).squeeze(1)
            torch.testing.assert_close(gain[:, i, v], -back, rtol=0, atol=1e-12)


def test_antisymmetric_is_its_formula() -> None:
    h, embed = torch.randn(2, 4, 16, dtype=torch.float64), torch.randn(3, 16, dtype=torch.float64)
    x = torch.randint(3, (2, 4))
    expected = torch.einsum("bdvw,bdw->bdv", embed - embed[x][:, :, None], h) / 4
    torch.testing.assert_close(antisymmetric(h, embed, x), expected)
