"""One front door to the exact methods: known figures, agreement, and an independent oracle."""

import re

import dimod
import pytest
import torch
from dwave.samplers import TreeDecompositionSampler

from tcsis import exact
from tcsis.draws import Sampler
from tcsis.exact import Enumeration, kaufman, transfer
from tcsis.noise import UniformNoise
from tcsis.targets import (
    RBM,
    Ising,
    Pairwise,
    Potts,
    SherringtonKirkpatrick,
    SpinGlass,
    Target,
    from_callable,
)

FIGURES = [
    (4, 0.28, 12.530667),
    (4, 0.4407, 15.522246),
    (4, 0.6, 20.056533),
    (10, 0.28, 77.710681),
    (10, 0.4407, 93.612250),
]


@pytest.mark.parametrize(("side", "beta", "log_z"), FIGURES)
def test_known_log_z(side: int, beta: float, log_z: float) -> None:
    result = exact.solve(Ising(side, beta))
    assert result.log_z == pytest.approx(log_z, abs=6e-7)
    assert result.method == ("enumeration" if side == 4 else "transfer matrix")


def test_known_correlation() -> None:
    g = exact.solve(Ising(10, 0.4407)).correlation
    assert g is not None
    expected = [1.0, 0.738164, 0.650784, 0.613844, 0.597304, 0.592463]
    assert g.tolist() == pytest.approx(expected, abs=6e-7)


@pytest.mark.parametrize("shape", [(2, 2), (3, 4), (4, 4), (4, 5)])
@pytest.mark.parametrize("beta", [0.28, 0.4407, 0.6])
def test_three_methods_agree(shape: tuple[int, int], beta: float) -> None:
    target = Ising(shape, beta)
    table, by_transfer = Enumeration(target), transfer.solve(target)
    for log_z in (by_transfer.log_z, kaufman.log_z(shape, beta)):
        assert log_z == pytest.approx(table.log_z, rel=1e-9)
    for energy in (by_transfer.mean_energy, kaufman.mean_energy(shape, beta)):
        assert energy == pytest.approx(table.mean_energy, rel=1e-9)


@pytest.mark.parametrize("beta", [0.28, 0.4407, 0.6])
def test_transfer_and_kaufman_agree_at_side_ten(beta: float) -> None:
    result = exact.solve(Ising(10, beta))
    assert result.log_z == pytest.approx(kaufman.log_z((10, 10), beta), rel=1e-9)
    assert result.mean_energy == pytest.approx(kaufman.mean_energy((10, 10), beta), rel=1e-9)


@pytest.mark.parametrize(
    "target",
    [
        Ising((6, 5), 0.4, field=0.15),
        Ising((5, 5), 0.7, boundary="open"),
        SpinGlass((6, 6), 1.0, "gaussian", seed=2),
        SpinGlass((4, 4), 2.0, seed=1),
    ],
    ids=repr,
)
def test_tree_decomposition_agrees(target: Pairwise) -> None:
    """dwave-samplers' junction-tree solver knows nothing of lattices or rows."""
    couplings, fields, constant = target.spin_form
    model = dimod.BinaryQuadraticModel("SPIN")
    for site, strength in enumerate(fields.tolist()):
        model.add_linear(site, -strength)
    for (i, j), strength in zip(target.edges.tolist(), couplings.tolist(), strict=True):
        model.add_quadratic(i, j, -strength)
    result = TreeDecompositionSampler().sample(model, num_reads=1, beta=1.0, seed=1)
    assert exact.solve(target).log_z == pytest.approx(
        result.info["log_partition_function"] + constant, rel=1e-9
    )


def test_every_target_is_solved() -> None:
    """Sums over all states, written out once more in plain torch."""
    weights = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    targets: list[Target] = [
        Potts((2, 3), 3, 0.9),
        SherringtonKirkpatrick(8, 1.0),
        RBM(weights, torch.ones(5), torch.zeros(3)),
        from_callable(lambda x: torch.where(x.sum(-1) == 2, 0.0, -torch.inf), 4, 2),
    ]
    for target in targets:
        x = torch.cartesian_prod(*[torch.arange(target.num_values)] * target.num_sites)
        log_density = target.to(dtype=torch.float64).log_density(x)
        p = log_density.softmax(0)
        result = exact.solve(target)
        assert result.log_z == pytest.approx(float(log_density.logsumexp(0)), rel=1e-12)
        mean_energy = -float(torch.where(p > 0, p * log_density, 0.0).sum())
        assert result.mean_energy == pytest.approx(mean_energy, abs=1e-12)
        assert result.site_marginals is not None
        torch.testing.assert_close(result.site_marginals[:, 1], p @ (x == 1).double())


def test_magnetisation() -> None:
    """Both methods give the same distribution, and its moments follow from G where they must."""
    target = Ising((4, 4), 0.4407, field=0.1)
    result = exact.solve(target)
    assert result.magnetisation is not None
    torch.testing.assert_close(
        transfer.magnetisation(target), result.magnetisation.probabilities, rtol=0, atol=1e-12
    )
    spins = result.magnetisation.values
    assert spins[0] == -1
    assert spins[-1] == 1
    ring = exact.solve(Ising((2, 2), 0.3))
    assert ring.magnetisation is not None
    assert ring.correlation is not None
    table = ring.enumeration
    assert table is not None
    m = table.states(torch.arange(16)).double().mean(-1) * 2 - 1
    for k in (1, 2, 4):
        assert ring.magnetisation.moment(k) == pytest.approx(float(table.p @ m**k), abs=1e-14)


@pytest.mark.statistical
@pytest.mark.parametrize("target", [Ising(4, 0.4407, 0.05), Ising(10, 0.4407)], ids=repr)
def test_draws_are_exact(target: Ising) -> None:
    """Mean energy of 10,000 draws within 4.5 standard errors: a false alarm in 1 of 150,000."""
    draws = exact.draw(target, 10_000, seed=3)
    energy = -target.log_density(draws.x).double()
    error = float(energy.std()) / 100
    assert float(energy.mean()) == pytest.approx(exact.solve(target).mean_energy, abs=4.5 * error)
    assert draws.log_z == pytest.approx(exact.solve(target).log_z)
    assert draws.ess == pytest.approx(1)
    assert torch.equal(draws.x, exact.draw(target, 10_000, seed=3).x)


def test_large_lattices_have_kaufman() -> None:
    result = exact.solve(Ising(32, 0.4407))
    assert result.method == "kaufman"
    assert result.correlation is not None
    assert result.correlation[1] == pytest.approx(-result.mean_energy / 0.4407 / 2048, rel=1e-12)
    assert result.magnetisation is None
    assert exact.solve(Ising(64, 0.4407)).correlation is None  # would take long
    # per site, close to the infinite lattice: Onsager's free energy at the critical point
    catalan = 0.915965594177219
    onsager = 0.5 * torch.log(torch.tensor(2.0)).item() + 2 * catalan / torch.pi
    assert result.log_z / 1024 == pytest.approx(onsager, abs=2e-3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: exact.solve(SherringtonKirkpatrick(30, 1.0)),
        lambda: exact.solve(Ising((6, 6, 6), 0.2)),
        lambda: exact.solve(Ising(20, 0.4, field=0.1)),
        lambda: exact.draw(Ising(16, 0.4, field=0.1), 10),
        lambda: exact.score(
            Ising(10, 0.4), UniformNoise(2), torch.zeros(1, 100, dtype=torch.long), 0.5
        ),
    ],
)
def test_too_large(call) -> None:
    with pytest.raises(ValueError, match="is too large: exact answers need") as error:
        call()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: exact.draw(Ising(4, 0.4), 0), "n is 0: expected an integer of at least 1"),
        (
            lambda: exact.solve(from_callable(lambda x: x.sum(-1) - torch.inf, 3, 2)),
            "forbids every state",
        ),
    ],
)
def test_bad_input(call, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_scores_check_what_they_are_given() -> None:
    target, noise = Ising((2, 3), 0.3), UniformNoise(2)
    x = torch.zeros(4, 6, dtype=torch.uint8)
    score = exact.score(target, noise, x, 0.3)
    assert (score[..., 0] == 0).all()
    torch.testing.assert_close(score, exact.score(target, noise, x.long(), 0.3))
    for call in (exact.score, exact.denoiser):
        with pytest.raises(ValueError, match="tokens from 5 to 5"):
            call(target, noise, x + 5, 0.3)
        with pytest.raises(ValueError, match="x has shape"):
            call(target, noise, x[:, :3], 0.3)
        with pytest.raises(ValueError, match="noise has 3 values"):
            call(target, UniformNoise(3), x, 0.3)


def test_exact_draws_as_a_sampler() -> None:
    target = Ising(3, 0.4)
    made = exact.sampler(target)
    assert isinstance(made, Sampler)
    assert torch.equal(made.sample(50, seed=4).x, exact.draw(target, 50, seed=4).x)
    with pytest.raises(ValueError, match="too large"):
        exact.sampler(Ising(16, -0.3))  # log Z is known, and no draw


# -- planar models ---------------------------------------------------------------------------------


def test_planar_models_are_solved_at_any_size() -> None:
    target = SpinGlass(24, 1.0, seed=1, boundary="open")
    truth, draws = exact.solve(target), exact.draw(target, 500, seed=3)
    assert truth.method == "kac-ward"
    assert truth.magnetisation is None
    assert truth.pair_same is not None
    assert draws.x.shape == (500, 576)
    assert draws.x.dtype == torch.uint8
    assert draws.log_weight.unique().tolist() == [truth.log_z]
    energy = target.energy(draws.x.long())
    standard_error = float(energy.std()) / 500**0.5
    assert float(energy.mean()) == pytest.approx(truth.mean_energy, abs=4 * standard_error)
    assert exact.sampler(target).sample(3).x.shape == (3, 576)


def test_a_glass_on_a_torus_has_log_z_but_no_draws() -> None:
    target = SpinGlass(20, 1.0)
    assert exact.solve(target).method == "kac-ward"
    assert exact.solvable(target)
    assert not exact.drawable(target)
    with pytest.raises(ValueError, match=r"planar graph.*use tcsis\.mcmc\.sample"):
        exact.draw(target, 1)


def test_fields_and_evidence_are_left_to_others() -> None:
    for target in (
        Ising(40, 0.4, field=0.1, boundary="open"),
        SpinGlass(40, 1.0, boundary="open").given({0: 1}),
    ):
        assert not exact.solvable(target)
        with pytest.raises(ValueError, match="too large"):
            exact.solve(target)


def test_elimination_has_what_is_too_cold_for_kac_ward(monkeypatch):
    glass = SpinGlass((15, 15), 25.0, seed=1, boundary="open")
    with pytest.raises(exact.TooColdError):
        exact.solve(glass, max_bytes=2**20)
    with pytest.raises(exact.TooColdError):
        exact.draw(glass, 3, max_bytes=2**20)
    monkeypatch.setattr(exact.elimination, "QUICK_WORK", 0)
    found = exact.solve(glass)
    assert found.method == "elimination"
    x = exact.draw(glass, 20).x.long()
    ground = exact.most_probable(glass)[1]
    # the next energy is 4β = 100 above
    assert torch.all(glass.to(dtype=torch.float64).log_density(x) == ground)
    assert found.mean_energy == pytest.approx(-ground)


def test_little_memory_leaves_kac_ward():
    glass = SpinGlass((15, 15), 0.5, seed=1, boundary="open")
    found = exact.solve(glass, max_bytes=2**20)
    assert found.method == "kac-ward"
    assert found.log_z == pytest.approx(exact.solve(glass).log_z, abs=1e-9)
