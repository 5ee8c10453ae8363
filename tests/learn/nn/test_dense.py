"""The layer over all sites: who is read, symmetries, and a time that all states share."""

import pytest
import torch
from torch import Tensor

from tcsis.learn.models.known_law import slots_of
from tcsis.learn.nn.dense import DenseNet
from tcsis.targets import Ising, Target

SHAPES = [(7,), (3, 4), (2, 3, 2)]


def made(target: Target, channels: int = 1, *, odd: bool = False) -> DenseNet:
    """Away from its start, where nothing but the first layer could be seen."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        trunk = DenseNet(slots_of(target), channels, 16, 2, odd=odd)
        with torch.no_grad():
            for weights in trunk.parameters():
                weights.add_(torch.randn_like(weights), alpha=0.3)
    return trunk


def inputs(target: Target, channels: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    z = torch.randn(5, target.num_sites, channels, generator=generator)
    return z, torch.rand(5, 1, generator=generator).expand(5, target.num_sites)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("channels", [1, 3])
def test_translations(shape: tuple[int, ...], channels: int) -> None:
    target = Ising(shape, 0.4)
    trunk, (z, alpha) = made(target, channels), inputs(target, channels)
    shifts, axes = tuple(range(1, len(shape) + 1)), tuple(range(1, len(shape) + 1))

    def roll(h: Tensor) -> Tensor:
        return h.unflatten(1, shape).roll(shifts, axes).flatten(1, len(shape))

    out = trunk(z, alpha)
    assert out.std(1).min() > 1e-2
    torch.testing.assert_close(trunk(roll(z), alpha), roll(out), rtol=0, atol=1e-5)
    torch.testing.assert_close(
        trunk.double()(roll(z.double()), alpha.double()), roll(trunk(z.double(), alpha.double())),
        rtol=0, atol=1e-12,
    )  # fmt: skip


def test_odd_in_what_it_reads() -> None:
    target = Ising(4, 0.4)
    z, alpha = inputs(target)
    odd, other = made(target, odd=True), made(target)
    torch.testing.assert_close(odd(-z, alpha), -odd(z, alpha), rtol=0, atol=1e-5)
    assert (other(-z, alpha) + other(z, alpha)).abs().max() > 0.1


def test_a_site_reads_all_others_and_not_itself() -> None:
    target = Ising(3, 0.4)
    trunk, (z, alpha) = made(target), inputs(target)
    changed = z.clone()
    changed[:, 4] += 1
    same = (trunk(z, alpha) == trunk(changed, alpha)).all(-1).all(0)
    assert same.nonzero().flatten().tolist() == [4]


def test_a_time_that_all_states_share_is_one_of_their_own() -> None:
    target = Ising(3, 0.4)
    trunk, (z, _) = made(target, 2), inputs(target, 2)
    shared = torch.full((1, 9), 0.3)
    torch.testing.assert_close(trunk(z, shared), trunk(z, shared.repeat(5, 1)), rtol=0, atol=1e-5)
    assert (trunk(z, shared) - trunk(z, 2 * shared)).abs().max() > 0.1


@pytest.mark.parametrize("odd", [True, False])
def test_every_weight_learns(odd: bool) -> None:
    target = Ising(3, 0.4)
    trunk = made(target, odd=odd)
    trunk(*inputs(target)).square().sum().backward()
    for key, weights in trunk.named_parameters():
        assert weights.grad is not None, key
        assert weights.grad.abs().max() > 0, key
