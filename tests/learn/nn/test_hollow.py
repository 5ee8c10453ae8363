"""Hollow convolutions: who reads whom, symmetries, sizes."""

from collections.abc import Callable
from math import prod

import pytest
import torch
from torch import Tensor, nn

from tcsis.learn.nn.hollow import HollowLattice, taps

CASES: dict[str, Callable[[], HollowLattice]] = {
    "torus": lambda: HollowLattice((4, 4), 2, kernel_sizes=(3, 5)),
    "wider than the torus": lambda: HollowLattice((3, 3), 2, kernel_sizes=(3, 9)),
    "thin torus": lambda: HollowLattice((2, 5), 2, kernel_sizes=(5, 7)),
    "ring": lambda: HollowLattice((7,), 2, kernel_sizes=(3, 7)),
    "cube": lambda: HollowLattice((2, 3, 4), 2, kernel_sizes=(3, 5)),
    "open": lambda: HollowLattice((4, 3), 2, kernel_sizes=(3, 9), periodic=False),
    "places": lambda: HollowLattice((4, 4), 2, kernel_sizes=(3, 5), sites=True),
}
SHAPES = [(4, 4), (3, 3), (2, 5), (7,), (2, 3, 4), (4, 3), (4, 4)]


def inputs(shape: tuple[int, ...], width: int = 2) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    z = torch.randn(5, prod(shape), width, dtype=torch.float64, generator=generator)
    alpha = torch.rand(5, 1, dtype=torch.float64, generator=generator)
    return z, alpha.expand(5, prod(shape))


@pytest.mark.parametrize(("name", "shape"), list(zip(CASES, SHAPES, strict=True)))
def test_features_read_all_sites_but_their_own(
    name: str, shape: tuple[int, ...], awake: Callable[..., nn.Module]
) -> None:
    trunk = awake(CASES[name]())
    z, alpha = inputs(shape)
    z.requires_grad_()
    h = trunk(z, alpha)
    assert h.shape == (5, prod(shape), 20)
    for i in range(prod(shape)):
        (gradient,) = torch.autograd.grad(h[:, i].sum(), z, retain_graph=True)
        assert (gradient[:, i] == 0).all()
        read = (gradient != 0).all(-1).all(0)
        assert torch.equal(read, torch.arange(prod(shape)) != i)


def test_small_kernels_read_neighbours_only(awake: Callable[..., nn.Module]) -> None:
    trunk = awake(HollowLattice((7, 7), 1, kernel_sizes=(3, 3, 3)))
    z, alpha = inputs((7, 7), 1)
    z.requires_grad_()
    (gradient,) = torch.autograd.grad(trunk(z, alpha)[:, 24].sum(), z)
    near = torch.zeros(7, 7, dtype=torch.bool)
    near[2:5, 2:5] = True
    near[3, 3] = False
    assert torch.equal((gradient != 0).any(-1).any(0), near.flatten())


def test_taps_of_a_small_kernel_come_first() -> None:
    large, small = taps((6, 6), 5, periodic=True), taps((6, 6), 3, periodic=True)
    assert torch.equal(large[:, :9], small)
    assert large[0].tolist().count(36) == 1  # the site itself
    assert taps((6, 6), 5, periodic=False)[0].tolist().count(36) == 25 - 8


def test_a_torus_commutes_with_translations_and_a_box_does_not(
    awake: Callable[..., nn.Module],
) -> None:
    z, alpha = inputs((4, 5))

    def roll(y: Tensor) -> Tensor:
        return y.unflatten(1, (4, 5)).roll((1, 2), (1, 2)).flatten(1, 2)

    torus = awake(HollowLattice((4, 5), 2, kernel_sizes=(3, 5, 7)))
    torch.testing.assert_close(torus(roll(z), alpha), roll(torus(z, alpha)))
    for options in ({"periodic": False}, {"sites": True}):
        other = awake(HollowLattice((4, 5), 2, kernel_sizes=(3, 5, 7), **options))
        assert not torch.allclose(other(roll(z), alpha), roll(other(z, alpha)), atol=1e-2)


@pytest.mark.parametrize("name", ["torus", "places"])
def test_every_weight_learns_and_time_matters(name: str, awake: Callable[..., nn.Module]) -> None:
    trunk = awake(CASES[name]())
    z, alpha = inputs((4, 4))
    out = trunk(z, alpha)
    assert not torch.allclose(out, trunk(z, alpha / 2), atol=1e-2)
    out.square().sum().backward()
    for key, parameter in trunk.named_parameters():
        # the first map has nothing to mix yet, and learns its bias alone
        silent = key == "mix.0.weight"
        assert parameter.grad is not None
        assert silent or parameter.grad.abs().max() > 0, key


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="one to three dimensions"):
        HollowLattice((2, 2, 2, 2), 1)
    for sizes in ((), (4,), (1,)):
        with pytest.raises(ValueError, match="expected odd sizes of at least 3"):
            HollowLattice((4, 4), 1, kernel_sizes=sizes)
