"""Four Kac–Ward determinants against enumeration, the transfer matrix and Kaufman."""

import numpy as np
import pytest
import torch

from tcsis.exact import Enumeration, TooColdError, kaufman, torus, transfer
from tcsis.exact.compiled import DOUBLE_DOUBLES
from tcsis.targets import Ising, Pairwise, SpinGlass


@pytest.mark.parametrize("shape", [(3, 3), (3, 4), (4, 3), (4, 4), (3, 5)])
@pytest.mark.parametrize("beta", [0.2, 1.0, -0.6])
@pytest.mark.parametrize("disorder", ["bimodal", "gaussian"])
def test_agrees_with_enumeration(shape, beta, disorder):
    target = SpinGlass(shape, beta, disorder, seed=3, dtype=torch.float64)
    table, result = Enumeration(target), torus.solve_torus(torus.read(target))
    assert result.log_z == pytest.approx(table.log_z, abs=1e-9)
    assert result.mean_energy == pytest.approx(table.mean_energy, abs=1e-8)
    expected = 2 * table.pair_same(*target.edges.T) - 1
    np.testing.assert_allclose(result.correlations, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0, 3.0])
def test_agrees_with_the_transfer_matrix(beta):
    target = SpinGlass((8, 7), beta, seed=1)
    expected, result = transfer.solve(target), torus.solve_torus(torus.read(target))
    assert result.log_z == pytest.approx(expected.log_z, abs=1e-9)
    assert result.mean_energy == pytest.approx(expected.mean_energy, abs=1e-8)


@pytest.mark.parametrize("beta", [0.3, 0.44, 0.8])
def test_agrees_with_kaufman(beta):
    result = torus.solve_torus(torus.read(Ising((16, 11), beta)))
    assert result.log_z == pytest.approx(kaufman.log_z((16, 11), beta), rel=1e-12)
    assert result.mean_energy == pytest.approx(kaufman.mean_energy((16, 11), beta), rel=1e-10)


def test_a_root_may_be_negative():
    """The negative control: with all roots positive the sum is wrong for some glass."""
    found = []
    for seed in range(6):
        target = SpinGlass((4, 4), 1.0, seed=seed, dtype=torch.float64)
        model = torus.read(target)
        twists = [torus.twisted(model.model.beta, model.seams, f) for f in ((), (0,), (1,), (0, 1))]
        roots = [
            torus.kac_ward.solve_in(torus.replace(model.model, beta=beta), DOUBLE_DOUBLES).log_z
            for beta in twists
        ]
        naive = np.log(np.exp(roots) @ [-0.5, 0.5, 0.5, 0.5])
        found.append(abs(naive - Enumeration(target).log_z) > 1e-3)
    assert any(found)
    assert not all(found)


def test_terms_that_cancel_are_refused():
    """A frustrated torus whose four terms cancel to more digits than a logarithm holds."""
    target = SpinGlass((3, 5), 4.0, seed=3)
    with pytest.raises(TooColdError, match="too cold"):
        torus.solve_torus(torus.read(target))


def test_what_is_a_torus():
    assert torus.read(SpinGlass(20, 1.0)) is not None
    glass = SpinGlass(20, 1.0)
    fewer = Pairwise(
        glass.edges[1:], glass.couplings[1:], torch.zeros(400, 2), lattice=glass.lattice
    )
    for target in (
        fewer,
        SpinGlass(20, 1.0, boundary="open"),
        SpinGlass((2, 20), 1.0),
        SpinGlass((5, 5, 5), 1.0),
        Ising(20, 0.4, field=0.1),
        Ising(20, 0.4).given({0: 1}),
    ):
        assert torus.read(target) is None
