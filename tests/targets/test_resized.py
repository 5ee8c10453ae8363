"""The same couplings on another lattice are those of the model made there."""

import pytest
import torch

from tcsis.targets import Ising, Pairwise, Potts, SpinGlass
from tcsis.targets.base import Target
from tcsis.targets.lattice import Lattice
from tcsis.targets.resized import halvings, on_lattice


def ring_with_a_direction(length: int) -> Pairwise:
    """x_i and x_{i+2} coupled by a table that is not symmetric."""
    table = torch.tensor([[0.3, -0.2, 0.1], [0.5, 0.0, 0.7], [-0.4, 0.2, 0.6]])
    sites = torch.arange(length)
    edges = torch.stack([sites, (sites + 2) % length], 1)
    fields = torch.tensor([0.1, -0.3, 0.2]).expand(length, -1)
    return Pairwise(edges, table.expand(length, 3, 3), fields, lattice=Lattice((length,)))


@pytest.mark.parametrize(
    ("large", "small"),
    [
        (Ising(6, 0.4407, field=0.3), Ising(4, 0.4407, field=0.3)),
        (Ising((6, 8), 0.3), Ising((2, 4), 0.3)),
        (Potts(6, 3, 0.9), Potts((4, 6), 3, 0.9)),
        (Ising((6, 6, 6), 0.2), Ising((4, 4, 4), 0.2)),
        (ring_with_a_direction(12), ring_with_a_direction(7)),
    ],
    ids=repr,
)
def test_the_smaller_model_is_the_one_made_there(large: Target, small: Target) -> None:
    assert small.lattice is not None
    made = on_lattice(large, small.lattice.shape)
    x = torch.randint(
        small.num_values, (200, small.num_sites), generator=torch.Generator().manual_seed(0)
    )
    assert torch.allclose(made.log_density(x).double(), small.log_density(x).double(), atol=1e-5)
    assert made.symmetries == small.symmetries


def test_halves_are_even_and_have_room_for_the_couplings() -> None:
    assert halvings(Ising(32, 0.4)) == ((8, 8), (16, 16))
    assert halvings(Ising(24, 0.4)) == ((12, 12),)
    assert halvings(Potts(18, 3, 0.5)) == ((8, 8),)
    assert halvings(Ising((8, 8, 8), 0.2)) == ((4, 4, 4),)
    assert halvings(Ising(8, 0.4)) == ()
    assert halvings(Ising(32, 0.4, boundary="open")) == ()
    assert halvings(SpinGlass(32, 1.0)) == ()


def test_a_lattice_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="none of them longer"):
        on_lattice(Ising(4, 0.4), (8, 8))
    with pytest.raises(ValueError, match="as many sides"):
        on_lattice(Ising(4, 0.4), (4,))
    with pytest.raises(ValueError, match=r"grows = \(\)"):
        on_lattice(SpinGlass(4, 1.0), (4, 4))
