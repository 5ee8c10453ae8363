"""dimod's own tests of samplers, and draws that follow exp(-β·E)."""

import math
import sys
import unittest

import dimod
import dimod.testing
import numpy as np
import pytest

import tcsis
from tcsis import exact
from tcsis.app.dimod_sampler import TCSISSampler


@dimod.testing.load_sampler_bqm_tests(TCSISSampler)
class TestBySamplersOfDimod(unittest.TestCase):
    """Every kind of model, vartype and label that dimod tries its own samplers on."""


def random_bqm(vartype: str, num_variables: int, seed: int) -> dimod.BinaryQuadraticModel:
    generator = np.random.default_rng(seed)
    bqm = dimod.BinaryQuadraticModel(vartype)
    names = ["a", ("b", 1), 7, "d", 3.5, "f", "g", "h", "i"][:num_variables]
    for name in names:
        bqm.add_linear(name, generator.normal())
    for i, u in enumerate(names):
        for v in names[:i]:
            bqm.add_quadratic(u, v, generator.normal())
    bqm.offset = generator.normal()
    return bqm


def random_dqm() -> dimod.DiscreteQuadraticModel:
    generator = np.random.default_rng(0)
    dqm = dimod.DiscreteQuadraticModel()
    cases = {"colour": 3, "size": 2, 5: 4, "one": 1}
    for name, count in cases.items():
        dqm.add_variable(count, name)
        dqm.set_linear(name, generator.normal(size=count))
    for u, v in (("colour", "size"), (5, "colour"), ("one", 5)):
        dqm.set_quadratic(u, v, generator.normal(size=(cases[u], cases[v])))
    dqm.offset = 0.7
    return dqm


def test_the_interface() -> None:
    sampler = TCSISSampler()
    dimod.testing.assert_sampler_api(sampler)
    assert set(sampler.parameters) == {"num_reads", "beta", "seed", "preset", "time_budget"}
    assert tcsis.TCSISSampler is TCSISSampler


@pytest.mark.statistical
@pytest.mark.parametrize("vartype", ["SPIN", "BINARY"])
def test_reads_follow_the_energy(vartype: str) -> None:
    """log Z and mean energy against dimod's ExactSolver; 4 standard errors, 6e-5."""
    bqm, beta = random_bqm(vartype, 9, 1), 0.6
    reads = TCSISSampler().sample(bqm, num_reads=4_000, beta=beta, seed=2)
    dimod.testing.assert_response_energies(reads, bqm)
    energy = dimod.ExactSolver().sample(bqm).record.energy
    log_z = np.logaddexp.reduce(-beta * energy)
    assert reads.info["log_z"] == pytest.approx(log_z, rel=1e-9)
    assert reads.info["log_z_error"] == 0
    assert reads.info["sampler"] == "exact, by enumeration"
    p = np.exp(-beta * energy - log_z)
    error = math.sqrt(p @ energy**2 - (p @ energy) ** 2) / math.sqrt(4_000)
    assert abs(reads.record.energy.mean() - p @ energy) < 4 * error
    hotter = TCSISSampler().sample(bqm, num_reads=4_000, beta=0.9 * beta, seed=2)
    assert abs(hotter.record.energy.mean() - p @ energy) > 4 * error  # it would show


@pytest.mark.statistical
def test_reads_of_a_discrete_model() -> None:
    dqm = random_dqm()
    reads = TCSISSampler().sample_dqm(dqm, num_reads=4_000, seed=1)
    every = dimod.ExactDQMSolver().sample_dqm(dqm)
    energy = every.record.energy
    log_z = np.logaddexp.reduce(-energy)
    assert reads.info["log_z"] == pytest.approx(log_z, rel=1e-9)
    assert set(reads.variables) == {"colour", "size", 5, "one"}
    assert np.allclose(dqm.energies(reads), reads.record.energy)
    p = np.exp(-energy - log_z)
    error = math.sqrt(p @ energy**2 - (p @ energy) ** 2) / math.sqrt(4_000)
    assert abs(reads.record.energy.mean() - p @ energy) < 4 * error  # 6e-5


def test_a_model_without_exact_draws_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    bqm = dimod.generators.ran_r(1, 10, seed=0)
    monkeypatch.setattr(tcsis.exact, "affordable", lambda target: False)
    options = {"num_reads": 500, "beta": 0.3, "preset": "tiny", "time_budget": 120.0, "seed": 3}
    reads = TCSISSampler().sample(bqm, **options)
    assert reads.info["sampler"] == "trained, autoregressive"
    assert 0 < reads.info["ess"] <= 1
    assert len(reads) == 500
    dimod.testing.assert_response_energies(reads, bqm)
    log_z = np.logaddexp.reduce(-0.3 * dimod.ExactSolver().sample(bqm).record.energy)
    assert abs(reads.info["log_z"] - log_z) < 5 * reads.info["log_z_error"] + 0.01


@pytest.mark.parametrize("vartype", ["SPIN", "BINARY"])
def test_anybodys_samples_of_a_model_are_judged(vartype: str) -> None:
    """Labels of any kind are the names of sites; sorted and counted samples are in no order."""
    bqm, beta = random_bqm(vartype, 9, 1), 0.6
    target = tcsis.formats.from_bqm(bqm, beta=beta)
    reads = TCSISSampler().sample(bqm, num_reads=5_000, beta=beta, seed=4)
    by_energy = np.argsort(reads.record.energy)
    turned = dimod.SampleSet.from_samples(
        (reads.record.sample[by_energy][:, ::-1], list(reads.variables)[::-1]),
        vartype, energy=reads.record.energy[by_energy],
    )  # fmt: skip
    for samples in (reads, turned, turned.aggregate(), reads.aggregate()):
        assert tcsis.judge(samples, target).level == "trusted"
    cold = TCSISSampler().sample(bqm, num_reads=5_000, beta=1.2 * beta, seed=4)
    for samples in (cold, cold.aggregate()):
        assert tcsis.judge(samples, target).level == "failed"


def test_code_for_other_samplers_runs() -> None:
    """Arguments of dwave-samplers are ignored with dimod's own warning."""
    bqm = random_bqm("SPIN", 5, 0)
    with pytest.warns(dimod.exceptions.SamplerUnknownArgWarning, match="num_sweeps"):
        reads = TCSISSampler().sample(bqm, num_reads=10, num_sweeps=1_000)
    assert len(reads) == 10
    again = TCSISSampler().sample(bqm, num_reads=10)
    assert np.array_equal(reads.record.sample, again.record.sample)
    other = TCSISSampler().sample(bqm, num_reads=10, seed=1)
    assert not np.array_equal(reads.record.sample, other.record.sample)
    assert len(TCSISSampler().sample_dqm(dimod.DiscreteQuadraticModel())) == 0
    with pytest.raises(ValueError, match="num_reads is 0: expected an integer of at least 1"):
        TCSISSampler().sample(bqm, num_reads=0)


def test_without_dimod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dimod", None)
    monkeypatch.delitem(sys.modules, "tcsis.app.dimod_sampler")
    monkeypatch.delitem(vars(tcsis), "TCSISSampler", raising=False)
    with pytest.raises(ImportError, match=r"TCSISSampler needs dimod, which is not installed"):
        assert tcsis.TCSISSampler


def test_an_offset_is_in_log_z_and_not_in_the_law() -> None:
    bqm = random_bqm("SPIN", 5, 0)
    bqm.offset = 0.0
    reads = TCSISSampler().sample(bqm, num_reads=200)
    bqm.offset = 1e18
    shifted = TCSISSampler().sample(bqm, num_reads=200)
    assert np.array_equal(reads.record.sample, shifted.record.sample)
    assert shifted.info["log_z"] == reads.info["log_z"] - 1e18
    empty = TCSISSampler().sample(dimod.BinaryQuadraticModel({}, {}, 3.0, "SPIN"), beta=2.0)
    assert empty.info["log_z"] == -6.0


def test_reads_by_default_and_models_of_another_kind() -> None:
    assert len(TCSISSampler().sample(random_bqm("SPIN", 3, 0), num_reads=None)) == 1_000
    with pytest.raises(ValueError, match=r"bqm is a dict: expected a dimod.BinaryQuadraticModel"):
        TCSISSampler().sample({0: 1.0})


def test_negative_labels_come_back_as_numbers() -> None:
    bqm = dimod.BinaryQuadraticModel({-1: 1.0, 7: 0.5}, {(-1, 7): 1.0}, 0.0, "SPIN")
    assert list(tcsis.formats.to_bqm(tcsis.formats.from_bqm(bqm)).variables) == [-1, 7]


def test_what_is_too_cold_for_exact_draws_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise exact.TooColdError("too cold")

    monkeypatch.setattr(exact, "solve", refuse)
    bqm = random_bqm("SPIN", 6, 0)
    reads = TCSISSampler().sample(bqm, num_reads=50, preset="tiny", time_budget=2.0)
    assert reads.info["sampler"].startswith("trained")
    energies = dimod.ExactSolver().sample(bqm).record.energy
    log_z = float(np.logaddexp.reduce(-energies))
    assert abs(reads.info["log_z"] - log_z) < max(0.1, 5 * reads.info["log_z_error"])


def test_no_discrete_model_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^dqm is a int: expected a dimod.DiscreteQuadraticModel"):
        TCSISSampler().sample_dqm(3)
