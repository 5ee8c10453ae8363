"""The printed figures that benchmarks/literature.py compares, and the exact ones beside them."""

import math
import sys
from pathlib import Path

import pytest
import torch

from tcsis import exact
from tcsis.targets import Ising

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
literature = pytest.importorskip("literature")


@pytest.mark.parametrize("beta", [0.2, 0.4407, 0.4461])
def test_observables_are_those_of_the_transfer_matrix(beta: float) -> None:
    found = literature.observables(6, beta)
    truth = exact.transfer.solve(Ising(6, beta, dtype=torch.float64))
    assert found.free_energy == pytest.approx(-truth.log_z / (36 * beta), rel=1e-10)
    assert found.internal_energy == pytest.approx(truth.mean_energy / (36 * beta), rel=1e-10)
    assert found.entropy == pytest.approx((truth.log_z + truth.mean_energy) / 36, rel=1e-8)


def test_the_optimum_of_dnfs_is_that_of_another_temperature_than_its_label() -> None:
    printed = literature.DNFS[0.22305][0].observables
    assert printed == pytest.approx(literature.observables(10, 0.4407), abs=literature.ROUNDING)
    assert abs(printed.internal_energy - literature.observables(10, 0.4461).internal_energy) > 0.03
    for row in literature.DNFS[0.22305]:
        low, high = literature.implied_beta(row.observables)
        assert low < 0.44075 and 0.4406 < high < 0.4461


def test_the_optimum_of_sdds_is_right() -> None:
    found = literature.observables(24, 0.4407)
    assert found == pytest.approx(literature.SDDS_OPTIMUM, abs=5e-6)


def test_a_left_sum_tends_to_log_z_as_its_steps_grow() -> None:
    few, many = (literature.left_sum_error(6, 0.4407, n) for n in (50, 500))
    assert few < 0 and many == pytest.approx(few / 10, rel=0.02)


def test_zeros_and_ones_are_spins_in_a_field() -> None:
    beta, target = 0.6, literature.of_zeros_and_ones(3, 0.6)
    x = torch.randint(2, (50, 9), generator=torch.Generator().manual_seed(0))
    grid = x.double().reshape(-1, 3, 3)
    theirs = beta * (grid * (grid.roll(1, 1) + grid.roll(1, 2))).flatten(1).sum(1)
    apart = target.log_density(x) - theirs
    assert float(apart.max() - apart.min()) < 1e-12


def test_bonds_count_twice() -> None:
    x = torch.randint(2, (20, 25), generator=torch.Generator().manual_seed(0))
    ours = Ising(5, 0.3, dtype=torch.float64).log_density(x)
    assert torch.allclose(literature.twice_counted(x, 5, 0.15), ours, atol=1e-12)


def test_the_scores_of_the_equation_are_exact_and_those_of_the_algorithm_are_not() -> None:
    _, log_right, _ = literature.scores(3, 0.4407, 1 - 1e-9)
    target = Ising(3, 0.4407, dtype=torch.float64)
    flipped = torch.zeros(2, 9, dtype=torch.int64)
    flipped[1, 4] = 1
    density = target.log_density(flipped)
    assert log_right[1 << 4] - log_right[0] == pytest.approx(float(density[1] - density[0]))
    size, off = literature.score_error(3, 0.4407, 0.5)
    assert off > 0.5 * size and math.isfinite(off)
