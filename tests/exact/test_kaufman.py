"""Kaufman's formula against enumeration, known figures and limits."""

import math

import pytest
import torch

from tcsis.exact import kaufman
from tcsis.targets import Ising, Potts, SpinGlass

CRITICAL = math.log(1 + math.sqrt(2)) / 2
CATALAN = 0.915965594177219


def enumerated(shape, beta):
    """log Z and mean energy."""
    target = Ising(shape, beta, dtype=torch.float64)
    x = torch.cartesian_prod(*[torch.arange(2)] * target.num_sites)
    log_density = target.log_density(x)
    log_z = log_density.logsumexp(0)
    return float(log_z), -float(((log_density - log_z).exp() * log_density).sum())


@pytest.mark.parametrize("shape", [(2, 2), (2, 3), (3, 2), (3, 3), (3, 4), (4, 4), (2, 7), (3, 5)])
@pytest.mark.parametrize("beta", [1e-4, 0.01, 0.28, 0.4407, CRITICAL, 0.6, 2.0, 20.0])
def test_agrees_with_enumeration(shape, beta):
    log_z, energy = enumerated(shape, beta)
    assert kaufman.log_z(shape, beta) == pytest.approx(log_z, rel=1e-13)
    assert kaufman.mean_energy(shape, beta) == pytest.approx(energy, rel=1e-11)


@pytest.mark.parametrize(
    ("side", "beta", "log_z"),
    [
        (4, 0.28, 12.530667),
        (4, 0.4407, 15.522246),
        (4, 0.6, 20.056533),
        (10, 0.28, 77.710681),
        (10, 0.4407, 93.612250),
    ],
)
def test_known_log_z(side, beta, log_z):
    assert kaufman.log_z((side, side), beta) == pytest.approx(log_z, abs=1e-6)


@pytest.mark.parametrize("shape", [(2, 2), (2, 4), (4, 4)])
def test_antiferromagnet_on_even_sides(shape):
    log_z, energy = enumerated(shape, -0.7)
    assert kaufman.log_z(shape, -0.7) == pytest.approx(log_z, rel=1e-13)
    assert kaufman.mean_energy(shape, -0.7) == pytest.approx(energy, rel=1e-12)


def test_infinite_temperature():
    assert kaufman.log_z((3, 5), 0.0) == pytest.approx(15 * math.log(2), rel=1e-15)
    assert kaufman.mean_energy((3, 5), 0.0) == 0.0


@pytest.mark.parametrize("side", [4, 5, 128])
@pytest.mark.parametrize("beta", [50.0, 1e3, 1e8])
def test_zero_temperature_has_two_states(side, beta):
    num_bonds = 2 * side**2
    assert kaufman.log_z((side, side), beta) == pytest.approx(num_bonds * beta + math.log(2))
    assert kaufman.mean_energy((side, side), beta) == pytest.approx(-num_bonds * beta, rel=1e-14)


@pytest.mark.parametrize("side", [128, 129])
def test_weak_coupling_series(side):
    """log Z/d = log 2 + 2 log cosh β + t⁴ + 2t⁶ + O(t⁸), t = tanh β, for sides beyond 6."""
    d, beta = side**2, 1e-3
    t = math.tanh(beta)
    log_z = d * (math.log(2) + 2 * math.log(math.cosh(beta)) + t**4 + 2 * t**6)
    assert kaufman.log_z((side, side), beta) == pytest.approx(log_z, rel=1e-14)
    slope = d * (2 * t + (4 * t**3 + 12 * t**5) * (1 - t**2))
    assert kaufman.mean_energy((side, side), beta) == pytest.approx(-beta * slope, rel=1e-11)


def test_onsager_limit_at_the_critical_point():
    """log Z/d -> log(2)/2 + 2G/π and energy per site -> -√2·β as the torus grows."""
    side = 2048
    log_z = kaufman.log_z((side, side), CRITICAL) / side**2
    assert log_z == pytest.approx(math.log(2) / 2 + 2 * CATALAN / math.pi, abs=1 / side**2)
    energy = kaufman.mean_energy((side, side), CRITICAL) / side**2
    assert energy == pytest.approx(-math.sqrt(2) * CRITICAL, abs=1 / side)


@pytest.mark.parametrize("shape", [(6, 6), (7, 9), (128, 128)])
def test_energy_passes_smoothly_through_the_critical_point(shape):
    """γ_0 changes sign there: values either side lie on one line, which has no kink."""
    left, at, right = (kaufman.mean_energy(shape, CRITICAL + shift) for shift in (-1e-7, 0.0, 1e-7))
    assert at == pytest.approx((left + right) / 2, rel=1e-10)
    for ulps in range(-3, 4):
        near = kaufman.mean_energy(shape, CRITICAL + ulps * math.ulp(CRITICAL))
        assert near == pytest.approx(at, rel=1e-12)


@pytest.mark.parametrize("beta", [0.05, 0.3, CRITICAL, 0.5, 1.5])
def test_energy_is_the_derivative_of_log_z(beta):
    step = 1e-4
    up, down = (kaufman.log_z((16, 11), beta + sign * step) for sign in (1, -1))
    slope = (up - down) / (2 * step)
    assert kaufman.mean_energy((16, 11), beta) == pytest.approx(-beta * slope, rel=2e-6)


def test_sides_may_be_swapped():
    assert kaufman.log_z((3, 1000), 0.4) == kaufman.log_z((1000, 3), 0.4)


@pytest.mark.parametrize(
    ("shape", "beta", "reason"),
    [
        ((3, 4), -0.3, "odd torus"),
        ((4, 4, 4), 0.3, "two sides"),
        ((1, 4), 0.3, "two sides"),
        ((4, 4), math.inf, "finite"),
    ],
)
def test_refusals(shape, beta, reason):
    with pytest.raises(ValueError, match=reason):
        kaufman.log_z(shape, beta)
    with pytest.raises(ValueError, match=reason):
        kaufman.mean_energy(shape, beta)


def test_applies():
    assert kaufman.applies(Ising((3, 5), 0.4))
    assert kaufman.applies(Ising(4, -0.4))
    for target in (
        Ising(4, 0.4, field=0.1),
        Ising(4, 0.4, boundary="open"),
        Ising((3, 4), -0.4),
        Ising((4, 4, 4), 0.2),
        SpinGlass(4, 0.4),
        Potts(4, 2, 0.4),
    ):
        assert not kaufman.applies(target)
