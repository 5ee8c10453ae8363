"""What targets declare, how they move and count, and what they refuse."""

import math
import re

import networkx
import numpy as np
import pytest
import torch

from tcsis.exact import solve
from tcsis.targets import (
    RBM,
    Ising,
    Lattice,
    Pairwise,
    Potts,
    SherringtonKirkpatrick,
    SpinGlass,
    Target,
    counting,
    from_callable,
)


def test_ising_by_hand() -> None:
    """2×3 open lattice, seven bonds; periodic 3×3, eighteen; a side of two is bound twice."""
    up = torch.ones(6, dtype=torch.long)
    assert Ising((2, 3), 0.5, 0.25, "open").log_density(up).item() == 0.5 * (7 + 0.25 * 6)
    assert Ising(3, 1.0).log_density(torch.ones(9, dtype=torch.long)).item() == 18
    assert Ising(2, 1.0).log_density(torch.ones(4, dtype=torch.long)).item() == 8
    assert Ising((3, 3, 3), 1.0).log_density(torch.ones(27, dtype=torch.long)).item() == 81
    one_flipped = torch.ones(9, dtype=torch.long)
    one_flipped[4] = 0
    assert Ising(3, 1.0).log_density(one_flipped).item() == 18 - 8


def test_potts_with_two_values_is_ising() -> None:
    """[x_i = x_j] = (1 + s_i s_j)/2, so Potts at 2β is Ising at β up to β a bond."""
    x = torch.randint(2, (20, 16), generator=torch.Generator().manual_seed(0))
    potts = Potts(4, 2, 0.8, dtype=torch.float64).log_density(x)
    ising = Ising(4, 0.4, dtype=torch.float64).log_density(x)
    torch.testing.assert_close(potts, ising + 0.4 * 32)


def test_spin_and_dense_constructors_agree() -> None:
    generator = torch.Generator().manual_seed(3)
    j = torch.randn(5, 5, generator=generator, dtype=torch.float64).triu(1)
    j, h = j + j.T, torch.randn(5, generator=generator, dtype=torch.float64)
    spins = torch.tensor([-1.0, 1.0], dtype=torch.float64)
    dense = 0.3 * j[:, :, None, None] * torch.outer(spins, spins)
    a = Pairwise.from_spins(j, h, beta=0.3, dtype=torch.float64)
    b = Pairwise.from_dense(dense, 0.3 * h[:, None] * spins, dtype=torch.float64)
    x = torch.randint(2, (30, 5), generator=generator)
    s = x.double() * 2 - 1
    expected = 0.3 * (torch.einsum("ni,ij,nj->n", s, j, s) / 2 + s @ h)
    torch.testing.assert_close(a.log_density(x), expected)
    torch.testing.assert_close(b.log_density(x), expected)


def test_the_hidden_units_of_a_machine_as_sites() -> None:
    """Summed over them it is the machine, at every state, given evidence too, and log Z and the
    marginals of the visible units are the same."""
    rng = np.random.default_rng(0)
    rbm = RBM(
        rng.normal(size=(4, 3)), rng.normal(size=4), rng.normal(size=3), constant=0.7,
        dtype=torch.float64,
    )  # fmt: skip
    x = torch.cartesian_prod(*[torch.arange(2)] * 4)
    h = torch.cartesian_prod(*[torch.arange(2)] * 3)
    both = torch.cat([x.repeat_interleave(8, 0), h.repeat(16, 1)], dim=1)
    summed = rbm.joint.log_density(both).reshape(16, 8).logsumexp(1)
    torch.testing.assert_close(summed, rbm.log_density(x))
    for ours, theirs in ((rbm, rbm.joint), (rbm.given({1: 1}), rbm.joint.given({1: 1}))):
        alone, joint = solve(ours), solve(theirs)
        assert joint.log_z == pytest.approx(alone.log_z, abs=1e-12)
        torch.testing.assert_close(joint.site_marginals[:4], alone.site_marginals)


def test_spin_glass_is_seeded() -> None:
    assert torch.equal(SpinGlass(4, 1.0, seed=1).couplings, SpinGlass(4, 1.0, seed=1).couplings)
    assert not torch.equal(SpinGlass(4, 1.0, seed=1).couplings, SpinGlass(4, 1.0, seed=2).couplings)
    assert SpinGlass(6, 1.0).couplings.abs().eq(1).all()
    strength = SherringtonKirkpatrick(400, 1.0).couplings[:, 0, 0]
    assert strength.square().mean().item() * 400 == pytest.approx(1, rel=0.02)


@pytest.mark.parametrize("shape", [(4, 4), (3, 3), (5, 4), (3, 5, 4), (2, 2), (7,)])
@pytest.mark.parametrize("boundary", ["periodic", "open"])
def test_lattice_colouring_is_proper(shape: tuple[int, ...], boundary: str) -> None:
    lattice = Lattice(shape, boundary)
    colour = lattice.colouring()
    i, j = lattice.bonds().T
    assert (colour[i] != colour[j]).all()
    even = all(side % 2 == 0 for side in shape)
    assert colour.max().item() == (1 if boundary == "open" or even else 2)


def test_graph_colouring_is_proper() -> None:
    graph = networkx.random_regular_graph(3, 20, seed=0)
    edges = torch.tensor(list(graph.edges))
    target = Pairwise(edges, torch.ones(30, 2, 2), torch.zeros(20, 2))
    assert target.colouring is not None
    assert (target.colouring[edges[:, 0]] != target.colouring[edges[:, 1]]).all()
    assert SherringtonKirkpatrick(10, 1.0).colouring is None


def test_symmetries() -> None:
    assert Ising(4, 0.4).symmetries.flip
    assert Ising(4, 0.4).symmetries.translations
    assert not Ising(4, 0.4, field=0.1).symmetries.flip
    assert Ising(4, 0.4, field=0.1).symmetries.translations
    assert not Ising(4, 0.4, boundary="open").symmetries.translations
    assert not SpinGlass(4, 1.0).symmetries.translations
    assert SpinGlass(4, 1.0).symmetries.flip
    potts = Potts(3, 4, 1.0).symmetries
    assert potts.value_permutation
    assert not potts.flip
    broken = Pairwise([[0, 1]], [[[1.0, 0, 0], [0, 1, 0.5], [0, 0, 1]]], torch.zeros(2, 3))
    assert not broken.symmetries.value_permutation


@pytest.mark.parametrize("target", [Ising(3, 0.3), Potts(3, 3, 0.5), SpinGlass(3, 1.0, seed=4)])
def test_declared_symmetries_hold(target: Target) -> None:
    x = torch.randint(target.num_values, (50, 9), generator=torch.Generator().manual_seed(0))
    relabelled = torch.randperm(target.num_values, generator=torch.Generator().manual_seed(1))[x]
    torch.testing.assert_close(target.log_density(relabelled), target.log_density(x))
    shifted = x.reshape(-1, 3, 3).roll(1, 2).flatten(1)
    same = torch.allclose(target.log_density(shifted), target.log_density(x))
    assert same == target.symmetries.translations


def test_placement_keeps_full_precision() -> None:
    """Parameters are float64 underneath, so a round trip through float32 loses nothing."""
    x = torch.randint(2, (10, 16), generator=torch.Generator().manual_seed(0))
    double = Ising(4, 0.4407, dtype=torch.float64)
    single = double.to(dtype=torch.float32)
    assert single.log_density(x).dtype == torch.float32
    assert torch.equal(single.to(dtype=torch.float64).log_density(x), double.log_density(x))
    assert torch.equal(single.log_density(x.to(torch.uint8)), single.log_density(x))
    sites = torch.zeros(10, dtype=torch.long)
    assert double.log_ratios_at(x, sites).dtype == torch.float64
    assert double.to(dtype=torch.float32).log_ratios_at(x, sites).dtype == torch.float32


def test_scaling() -> None:
    x = torch.randint(3, (4, 9), generator=torch.Generator().manual_seed(0))
    target = Potts(3, 3, 1.0, dtype=torch.float64)
    torch.testing.assert_close(target.scaled(0.5).log_density(x), 0.5 * target.log_density(x))
    scales = torch.tensor([0.0, 0.5, 1.0, 2.0], dtype=torch.float64)
    batch = target.scaled(scales)
    torch.testing.assert_close(batch.log_density(x), scales * target.log_density(x))
    ratios = scales[:, None, None] * target.log_ratios(x)
    torch.testing.assert_close(batch.log_ratios(x), ratios)
    torch.testing.assert_close(batch.taylor_log_ratios(x), ratios)


def test_counting() -> None:
    ising = Ising(4, 0.3)
    x = torch.zeros(5, 16, dtype=torch.long)
    with counting(ising) as cost:
        ising.log_density(x)
        ising.log_ratios(x)
        ising.log_ratios_at(x, x[:, 0])
        with counting(ising) as inner:
            ising.scaled(torch.ones(5)).log_density(x)
    assert inner.densities == 5
    assert cost.densities == 5 + 5 + 5 / 16 + 5
    ising.log_density(x)
    assert cost.densities == 15 + 5 / 16
    seen = 0

    def log_density(x: torch.Tensor) -> torch.Tensor:
        nonlocal seen
        seen += len(x)
        return torch.zeros(len(x))

    box = from_callable(log_density, 3, 4)
    seen = 0
    with counting(box) as cost:
        box.log_ratios(torch.zeros(7, 3, dtype=torch.long))
        box.log_ratios_at(torch.zeros(7, 3, dtype=torch.long), torch.zeros(7, dtype=torch.long))
    assert cost.densities == seen == 7 * (3 * 3 + 1) + 7 * 4


def test_neural_energy() -> None:
    """A float32 network with parameters: no graph is kept, gradients still reach the tokens."""
    network = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(12, 8), torch.nn.SiLU(), torch.nn.Linear(8, 1)
    )

    def relaxed(z: torch.Tensor) -> torch.Tensor:
        return network(z).squeeze(-1)

    target = from_callable(
        lambda x: relaxed(torch.nn.functional.one_hot(x, 3).float()), 4, 3, relaxed=relaxed
    )
    x = torch.randint(3, (2, 5, 4))
    assert not target.log_density(x).requires_grad
    assert target.taylor_log_ratios(x).shape == (2, 5, 4, 3)


GOOD = torch.zeros(2, 16, dtype=torch.long)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (GOOD.float(), "x has dtype torch.float32"),
        (GOOD.bool(), "x has dtype torch.bool"),
        (GOOD - 1, "tokens from -1 to -1: expected integer tokens 0..1"),
        (GOOD + 2, "tokens from 2 to 2"),
        (GOOD[:, :5], r"x has shape (2, 5): expected integer tokens 0..1 of shape (..., 16)"),
        (torch.tensor(1), "x has shape ()"),
        (GOOD.numpy(), "x is a ndarray"),
    ],
)
def test_bad_tokens(x: torch.Tensor, message: str) -> None:
    target = Ising(4, 0.4)
    for method in (target.log_density, target.log_ratios, target.taylor_log_ratios):
        with pytest.raises(ValueError, match=re.escape(message)) as error:
            method(x)
        assert "\n" not in str(error.value)


NAN, SYMMETRIC = math.nan, torch.ones(3, 3) - torch.eye(3)


FORMS = {
    "a column": lambda x: -x.sum(-1, keepdim=True).double(),
    "whole numbers": lambda x: -x.sum(-1),
    "a column of whole numbers": lambda x: -x.sum(-1, keepdim=True),
    "half precision": lambda x: -x.sum(-1).half(),
    "an array": lambda x: -x.numpy().sum(-1),
    "a column of an array": lambda x: -x.numpy().sum(-1, keepdims=True).astype("float32"),
    "a list": lambda x: [-sum(row) for row in x.tolist()],
}


@pytest.mark.parametrize("form", FORMS)
def test_a_function_may_give_its_numbers_in_many_forms(form: str) -> None:
    target = from_callable(FORMS[form], 4, 3)
    x = torch.randint(3, (5, 2, 4), generator=torch.Generator().manual_seed(0))
    found = target.log_density(x)
    assert found.dtype == torch.float64
    assert torch.equal(found, -x.sum(-1).double())
    assert target.log_ratios(x).shape == (5, 2, 4, 3)
    assert target.log_density(x[0, :1]).shape == (1,)  # one state: (1, 1) is a column too


def test_truth_values_are_numbers() -> None:
    target = from_callable(lambda x: x[:, 0] == x[:, 1], 2, 2)
    assert target.log_density(torch.tensor([[0, 0], [0, 1]])).tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Ising(1, 0.4), "side is [1, 1]: expected every side to be at least 2"),
        (lambda: Ising((4, -2), 0.4), "side is [4, -2]"),
        (lambda: Ising(4.0, 0.4), "side is 4.0: expected an integer"),
        (lambda: Ising(4, NAN), "beta is nan: expected a finite number"),
        (lambda: Ising(4, "warm"), "beta is 'warm'"),
        (lambda: Ising(4, 0.4, field=math.inf), "field has inf"),
        (lambda: Ising(4, 0.4, boundary="cyclic"), "boundary is 'cyclic'"),
        (lambda: Potts(4, -3, 1.0), "num_values is -3: expected an integer of at least 2"),
        (lambda: Potts(4, 1, 1.0), "num_values is 1"),
        (lambda: SpinGlass(4, 1.0, "uniform"), "disorder is 'uniform'"),
        (lambda: SherringtonKirkpatrick(1, 1.0), "num_sites is 1"),
        (lambda: Pairwise.from_spins(SYMMETRIC * NAN), "couplings has nan at index [0, 0]"),
        (lambda: Pairwise.from_spins(SYMMETRIC.triu()), "not symmetric: [0, 1] and [1, 0] differ"),
        (lambda: Pairwise.from_spins(torch.ones(3, 3)), "diagonal entry at site 0"),
        (lambda: Pairwise.from_spins(torch.ones(3, 4)), "expected a square matrix"),
        (lambda: Pairwise.from_spins(SYMMETRIC, torch.ones(2)), "fields has shape (2,)"),
        (lambda: Pairwise.from_dense(torch.rand(3, 3, 2, 2)), "couplings is not symmetric"),
        (lambda: Pairwise.from_dense(torch.rand(3, 3)), "expected (d, d, v, v)"),
        (lambda: Pairwise([[0, 3]], torch.ones(1, 2, 2), torch.ones(3, 2)), "expected 0..2"),
        (lambda: Pairwise([[1, 1]], torch.ones(1, 2, 2), torch.ones(3, 2)), "site 1 to itself"),
        (lambda: Pairwise([[0, 1]], torch.ones(1, 3, 3), torch.ones(3, 2)), "couplings has shape"),
        (lambda: Pairwise([[0.0, 1]], torch.ones(1, 2, 2), torch.ones(3, 2)), "edges has dtype"),
        (lambda: Pairwise([[0, 1]], torch.ones(1, 1, 1), torch.ones(3, 1)), "fields has shape"),
        (lambda: RBM(torch.ones(3), torch.ones(3), torch.ones(2)), "weights has shape (3,)"),
        (lambda: RBM(torch.ones(3, 2), torch.ones(2), torch.ones(2)), "visible_bias has shape"),
        (lambda: RBM(torch.ones(3, 2), torch.ones(3), torch.ones(3)), "hidden_bias has shape (3,)"),
        (lambda: RBM(torch.ones(3, 2) * NAN, torch.ones(3), torch.ones(2)), "weights has nan"),
        (lambda: from_callable(lambda x: x, 3, -2), "num_values is -2"),
        (lambda: from_callable(lambda x: x, 0, 2), "num_sites is 0"),
        (lambda: from_callable(None, 3, 2), "log_density is a NoneType"),
        (lambda: from_callable(lambda x: x.float(), 3, 2), "of shape (16, 3) for 16 states"),
        (lambda: from_callable(lambda x: x.float().sum(), 3, 2), "expected floats of shape (16,)"),
        (lambda: from_callable(lambda x: x.sum(-1) * 1j, 3, 2), "returned torch.complex64"),
        (lambda: from_callable(lambda x: x.sum(-1)[None], 3, 2), "of shape (1, 16) for 16 states"),
        (lambda: from_callable(lambda x: x.sum(-1)[:, None, None], 3, 2), "of shape (16, 1, 1)"),
        (lambda: from_callable(lambda x: x.sum(-1) * NAN, 3, 2), "returned nan at state ["),
        (lambda: from_callable(lambda x: x.sum(-1) + math.inf, 3, 2), "returned inf at state ["),
        (
            lambda: from_callable(
                lambda x: x.sum(-1).double(), 3, 2, relaxed=lambda z: z[..., 0].sum(-1)
            ),
            "the two must agree on tokens",
        ),
        (
            lambda: from_callable(lambda x: x.sum(-1).double(), 3, 2, lattice=Lattice((2, 2))),
            "lattice of shape (2, 2) has 4 sites",
        ),
    ],
)  # fmt: skip
def test_bad_parameters(build, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        build()
    assert "\n" not in str(error.value)


def test_late_nan_names_its_state() -> None:
    """A density that passes the probe but fails on one state is caught when it meets it."""
    bad = torch.tensor([1, 0, 1, 1, 0, 1, 1, 1, 0, 0, 1, 1])

    def log_density(x: torch.Tensor) -> torch.Tensor:
        return torch.where((x == bad).all(-1), NAN, 0.0)

    target = from_callable(log_density, 12, 2)
    with pytest.raises(ValueError, match=re.escape(f"nan at state {bad.tolist()}")):
        target.log_density(torch.stack([1 - bad, bad]))


def test_gradient_of_a_black_box_is_refused() -> None:
    target = from_callable(lambda x: x.sum(-1).double(), 3, 2)
    with pytest.raises(ValueError, match="has no gradient: pass relaxed="):
        target.taylor_log_ratios(torch.zeros(3, dtype=torch.long))


def test_more_bonds_than_the_lattice_has() -> None:
    """A lattice only lays out the sites: the colouring must be proper for the bonds there are."""
    edges = [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [0, 2]]
    target = Pairwise(edges, torch.ones(6, 2, 2), torch.zeros(6, 2), lattice=Lattice((6,), "open"))
    assert target.colouring is not None
    i, j = target.edges.T
    assert (target.colouring[i] != target.colouring[j]).all()


def test_numpy_integers_are_integers() -> None:
    assert Potts(np.int64(3), np.int32(3), 0.5).num_sites == 9
    assert from_callable(lambda x: x.sum(-1).double(), np.int64(4), 2).num_sites == 4


def test_functions_may_work_in_place() -> None:
    """The common way from tokens to spins must not reach back into the caller's states."""

    def log_density(x: torch.Tensor) -> torch.Tensor:
        x[x == 0] = -1
        return (x * x.roll(1, -1)).double().sum(-1)

    target = from_callable(log_density, 4, 2)
    x = torch.zeros(3, 4, dtype=torch.long)
    assert target.log_density(x).tolist() == [4, 4, 4]
    assert x.eq(0).all()
    assert target.log_ratios(x)[0, 0].tolist() == [0, -4]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Potts(3, 256, 1.0), "num_values is 256: expected at most 255"),
        (lambda: from_callable(lambda x: x.sum(-1).double(), 1, 300), "num_values is 300"),
        (lambda: Pairwise([], [], torch.zeros(0, 2)), "num_sites is 0"),
        (lambda: Pairwise([], torch.ones(7, 2, 2), torch.ones(3, 2)), "edges has dtype"),
        (lambda: Pairwise(None, [], torch.ones(3, 2)), "edges is None"),
        (lambda: Pairwise([], [], torch.ones(3, 2), constant=NAN), "constant has nan"),
        (lambda: Pairwise([], [], torch.ones(3, 2), lattice=Lattice((2, 2))), "has 4 sites"),
        (lambda: Pairwise.from_spins(None), "couplings is None: expected numbers"),
        (lambda: Pairwise.from_spins(SYMMETRIC * 1j), "couplings is complex"),
        (lambda: Pairwise.from_dense(torch.zeros(2, 2, 2, 2), torch.zeros(3, 3)), "fields has"),
        (lambda: RBM(torch.zeros(3, 0), torch.zeros(3), torch.zeros(0)), "num_hidden is 0"),
        (lambda: SherringtonKirkpatrick("a", 1.0), "num_sites is 'a'"),
        (lambda: SpinGlass(4, 1.0, seed="a"), "seed is 'a'"),
        (lambda: from_callable(lambda x: None, 3, 2), "returned a NoneType"),
    ],
)
def test_more_bad_parameters(build, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        build()
    assert "\n" not in str(error.value)


def test_empty_batches() -> None:
    nothing = torch.zeros(0, 9, dtype=torch.long)
    for target in (Ising(3, 0.3), Potts(3, 3, 0.3)):
        assert target.log_density(nothing).shape == (0,)
        assert target.log_ratios(nothing).shape == (0, 9, target.num_values)


def test_modules_are_asked_in_evaluation_mode() -> None:
    network = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1)
    )

    class Energy(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return -self.network(x.float())  # (n, 1)

    energy = Energy()
    energy.network[1].eval()  # a part that the user froze
    target = from_callable(energy, 4, 2)
    x = torch.randint(2, (16, 4), generator=torch.Generator().manual_seed(0))
    whole, apart = target.log_density(x), torch.cat([target.log_density(row) for row in x[:, None]])
    torch.testing.assert_close(whole, apart)
    assert torch.equal(whole, target.log_density(x))
    assert [part.training for part in energy.network] == [True, False, True, True]
