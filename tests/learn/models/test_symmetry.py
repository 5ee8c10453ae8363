"""Symmetries built into a network hold to rounding, whatever its weights."""

import itertools

import pytest
import torch
from torch import Tensor

from tcsis.learn.models.symmetry import (
    Symmetrise,
    as_it_is,
    averaged,
    names_by_count,
    sorted_values,
)

SITES = 7


def logits_of(num_values: int) -> torch.nn.Module:
    """A network without any symmetry: a dense map of the one-hot states and of α."""
    generator = torch.Generator().manual_seed(0)
    shape = (SITES * (num_values + 1), SITES * num_values)
    weights = torch.randn(shape, generator=generator, dtype=torch.float64)

    def logits(x: Tensor, alpha: Tensor) -> Tensor:
        one_hot = torch.nn.functional.one_hot(x, num_values).double()
        z = torch.cat([one_hot, alpha[..., None]], -1).flatten(1)
        return torch.tanh(z @ weights / 3).unflatten(1, (SITES, num_values))

    return logits


def every_state(num_values: int) -> tuple[Tensor, Tensor]:
    """States with α different at every site, so that no two values are equally common."""
    x = torch.cartesian_prod(*[torch.arange(num_values)] * SITES)
    generator = torch.Generator().manual_seed(1)
    return x, torch.rand(x.shape, generator=generator, dtype=torch.float64)


def asymmetry(symmetrise: Symmetrise, num_values: int) -> float:
    """The largest |logits(πx)[π(v)] - logits(x)[v]| over states and permutations π.  Values that a
    state does not hold are equally common, and exchanged at no loss only if it holds all others."""
    x, alpha = every_state(num_values)
    held = torch.nn.functional.one_hot(x, num_values).amax(1).sum(1)
    x, alpha = x[held >= num_values - 1], alpha[held >= num_values - 1]
    logits = logits_of(num_values)
    here = symmetrise(logits, x, alpha, num_values)
    worst = 0.0
    for renaming in itertools.permutations(range(num_values)):
        there = symmetrise(logits, torch.tensor(renaming)[x], alpha, num_values)
        worst = max(worst, float((there[..., list(renaming)] - here).abs().max()))
    return worst


def test_averaging_makes_a_model_of_spins_symmetric() -> None:
    assert asymmetry(averaged, 2) < 1e-12
    assert asymmetry(as_it_is, 2) > 0.1


@pytest.mark.parametrize("num_values", [2, 3])
def test_sorting_makes_any_model_symmetric(num_values: int) -> None:
    assert asymmetry(sorted_values, num_values) < 1e-12
    assert asymmetry(as_it_is, num_values) > 0.1


def test_averaging_keeps_what_is_symmetric_already() -> None:
    x, alpha = every_state(2)
    logits = logits_of(2)

    def odd(x: Tensor, alpha: Tensor) -> Tensor:
        return logits(x, alpha) + logits(1 - x, alpha).flip(-1)

    torch.testing.assert_close(averaged(odd, x, alpha, 2), odd(x, alpha))


def test_names_by_count_by_hand() -> None:
    x = torch.tensor([[2, 2, 1, 0, 2], [0, 1, 1, 2, 2]])
    alpha = torch.tensor([[0.1, 0.1, 1.0, 0.9, 0.1], [1.0, 1.0, 1.0, 0.1, 0.1]])
    assert names_by_count(x, torch.ones(2, 5), 3).tolist() == [[1, 2, 0], [2, 0, 1]]
    assert names_by_count(x, alpha, 3).tolist() == [[1, 0, 2], [1, 0, 2]]
