"""Results hold what the draws showed, and come back from disk as they were."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

import tcsis
from tcsis import exact
from tcsis.app.results import MAX_PAIRS, Result, ScorePairs
from tcsis.app.summaries import compare_results, energy_levels, thin_pairs
from tcsis.basics.seals import seal_json
from tcsis.judging import weights
from tcsis.judging.reference import NUM_REFERENCE
from tcsis.mcmc import diagnostics
from tcsis.targets import Ising, from_callable

TARGET = Ising(4, 0.4407)


@pytest.fixture(scope="module")
def result() -> Result:
    chains = tcsis.mcmc.sample(
        TARGET, "gibbs", num_chains=10, num_steps=1_200, seed=1, progress=False
    )
    return compare_results(
        TARGET,
        {
            "exact": tcsis.exact.draw(TARGET, 3_000, seed=2),
            "free": tcsis.learning_free(TARGET, num_rungs=50).sample(2_000, seed=1),
            "gibbs": chains,
        },
        history=[
            {"seconds": 1.0, "step": 10, "loss": math.nan},
            {"seconds": 2.0, "ess": 0.5, "leak": 0.25},
        ],
        training_seconds={"free": 3.0},
    )


def test_it_comes_back(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "new" / "result.json")
    assert Result.load(tmp_path / "new" / "result.json") == result
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["result.json"]


def test_what_it_holds(result: Result) -> None:
    perfect, free, gibbs = result.methods
    assert result.target.shape == [4, 4]
    assert result.target.spec["name"] == "ising"
    assert result.exact.log_z == pytest.approx(tcsis.exact.solve(TARGET).log_z)
    assert (perfect.verdict.level, perfect.weighted, free.weighted) == ("trusted", False, True)
    assert perfect.pareto_k is None  # of equal weights it is not finite
    assert perfect.log_z == pytest.approx(result.exact.log_z)
    assert free.training_seconds == 3
    assert [row.name for row in free.weighted_rows] == [row.name for row in free.rows]
    assert all(row.floor for row in free.rows)
    assert perfect.verdict.by_weight is None and perfect.log_weights is None
    assert free.verdict.as_drawn.level in ("trusted", "doubtful", "failed")
    assert free.verdict.by_weight.why.endswith(".")
    assert sum(free.log_weights.histogram.probabilities) == pytest.approx(1)
    assert 0 <= free.log_weights.leak < 0.1
    assert gibbs.traces is not None and perfect.traces is None
    assert len(gibbs.traces.energies) == 4
    assert len(gibbs.traces.draws) == len(gibbs.traces.energies[0]) <= 500
    assert all(len(method.states) == 16 for method in result.methods)
    assert result.history[0].loss is None
    assert (result.history[1].ess, result.history[1].leak, result.history[0].missed) == (
        0.5, 0.25, None,
    )  # fmt: skip


@pytest.mark.statistical
def test_curves_agree_with_exact(result: Result) -> None:
    """Two distances of three methods within 4.5 standard errors: one false alarm in 20,000."""
    for method in result.methods:
        correlation = method.correlation
        for r in (1, 2):
            gap = abs(correlation.values[r] - result.exact.correlation[r])
            assert gap < 4.5 * correlation.errors[r], (method.name, r)
        assert sum(method.energy.probabilities) == pytest.approx(1)
        assert sum(method.magnetisation.probabilities) == pytest.approx(1)
        assert method.energy.values == result.exact.energy.values
    error = result.methods[0].correlation.errors[1]
    floor = result.exact.correlation_deviation[1] / math.sqrt(3_000)
    assert error == pytest.approx(floor, rel=0.1)


def test_errors_of_chains_count_what_is_independent(result: Result) -> None:
    """12,000 states of ten slow chains know less than as many independent draws."""
    floor = result.exact.correlation_deviation[1] / math.sqrt(12_000)
    assert result.methods[2].correlation.errors[1] > 1.2 * floor


def test_many_levels_become_bins() -> None:
    energies = torch.linspace(0, 1, 5_000, dtype=torch.float64)
    levels = energy_levels([energies, torch.tensor([math.inf]).double()])
    assert len(levels) == 40
    assert 0 < levels[0] < levels[-1] < 1


def test_the_exact_histogram_does_not_follow_the_draws() -> None:
    """Draws on one level leave the exact distribution where it is."""
    frozen = tcsis.Draws(torch.ones(100, 16, dtype=torch.uint8))
    result = compare_results(TARGET, {"frozen": frozen})
    assert max(result.methods[0].energy.probabilities) == pytest.approx(1)
    assert max(result.exact.energy.probabilities) < 0.6


def test_targets_without_lattice_or_exact_answers() -> None:
    generator = torch.Generator().manual_seed(0)
    cube = Ising((6, 6, 6), 0.01)
    x = torch.randint(2, (40, 216), generator=generator).to(torch.uint8)
    large = compare_results(cube, {"noise": tcsis.Draws(x)})
    assert large.exact is None
    assert large.methods[0].verdict.level == "doubtful"
    free = from_callable(lambda x: -x.double().sum(-1), 5, 3)
    small = compare_results(free, {"noise": tcsis.Draws(x[:, :5])}).methods[0]
    assert small.correlation is None
    assert small.magnetisation is None


def test_forbidden_states_have_no_energy() -> None:
    target = from_callable(lambda x: torch.where(x.sum(-1) > 0, 0.0, -torch.inf), 3, 2)
    x = torch.tensor([[[0, 0, 0], [0, 0, 1], [1, 1, 1], [0, 1, 1]]] * 2).to(torch.uint8)
    result = compare_results(target, {"chains": tcsis.Draws(x)})
    assert result.methods[0].traces.energies[0][0] is None
    assert Result.model_validate_json(result.model_dump_json())


def test_forbidden_draws_have_a_share_of_their_own() -> None:
    target = from_callable(lambda x: torch.where(x.sum(-1) > 0, 0.0, -torch.inf), 5, 2)
    x = torch.randint(2, (4_000, 5), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    draws = tcsis.Draws(x, target.log_density(x).double() + 5 * math.log(2))
    result = compare_results(target, {"uniform": draws, "nothing": draws[x.sum(-1) == 0]})
    method, nothing = result.methods
    assert method.verdict.level == "trusted by weight"
    tails = method.log_weights
    assert tails.forbidden == tails.leak == pytest.approx(1 / 32, abs=0.01)
    assert sum(tails.histogram.probabilities) == pytest.approx(1 - tails.forbidden)
    assert (nothing.verdict.level, nothing.log_weights) == ("failed", None)
    assert Result.model_validate_json(result.model_dump_json()) == result


def tempered(n: int) -> tcsis.Draws:
    """Draws at another temperature with the weights that correct them."""
    other = Ising(4, 0.42)
    x = tcsis.exact.draw(other, n, seed=3).x
    return tcsis.Draws(x, TARGET.log_density(x).double() - other.log_density(x).double())


def test_each_thing_once_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact draws for all methods together; the tail of the weights, R-hat and the energies of the
    draws for each method."""
    calls: Counter[str] = Counter()

    def counted(owner: Any, name: str) -> None:
        function = getattr(owner, name)

        def count(*args: Any, **options: Any) -> Any:
            calls[name] += 1
            return function(*args, **options)

        monkeypatch.setattr(owner, name, count)

    methods = {
        "weighted": tempered(3_000),
        "chains": tcsis.mcmc.sample(TARGET, "gibbs", num_chains=10, num_steps=300, progress=False),
    }
    energies = []
    target = Ising(4, 0.4407)
    monkeypatch.setattr(
        target, "energy", lambda x: energies.append(len(x)) or Ising.energy(target, x)
    )
    for owner, name in ((exact, "draw"), (weights, "pareto_k"), (diagnostics, "observe")):
        counted(owner, name)
    result = compare_results(target, methods)
    assert [method.weighted for method in result.methods] == [True, False]
    # of energy and order parameter, four overlaps, four projections and two sites
    assert calls == {"draw": 1, "pareto_k": 1, "observe": 12}
    assert sorted(energies) == [3_000, 3_000, NUM_REFERENCE]


def test_weighted_chains() -> None:
    """As many chains as give an error of their own, with weights that give it as well."""
    flat = tempered(3_000)
    chains = tcsis.Draws(flat.x.reshape(10, 300, 16), flat.log_weight.reshape(10, 300))
    one, other = compare_results(TARGET, {"flat": flat, "chains": chains}).methods
    assert one.weighted and other.weighted
    assert one.correlation == other.correlation


def test_score_pairs_are_thinned() -> None:
    learned = torch.arange(9_001.0)
    learned[0] = math.inf
    pairs = thin_pairs(learned, torch.arange(9_001.0))
    assert len(pairs.learned) == len(pairs.exact) <= MAX_PAIRS
    assert pairs.learned == pairs.exact
    with pytest.raises(ValueError, match="expected equally many"):
        ScorePairs(learned=[1.0], exact=[])


def test_damaged_files(result: Result, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    with pytest.raises(ValueError, match="cannot be read"):
        Result.load(path)
    for content in ("", "[]", "{}", result.model_dump_json()):
        path.write_text(content)
        with pytest.raises(ValueError, match="has no checksum"):
            Result.load(path)
    result.save(path)
    for damaged in (path.read_text()[:-40], path.read_text().replace("0.5", "0.6")):
        path.write_text(damaged)
        with pytest.raises(ValueError, match="does not match its checksum"):
            Result.load(path)
    text = result.model_dump_json(indent=1)
    path.write_text(seal_json(text.replace('"config":', '"konfig":')))
    with pytest.raises(ValueError, match="konfig"):
        Result.load(path)
    path.write_text(seal_json(text.replace('"acceptance":', '"accepted":')))
    with pytest.raises(ValueError, match=r"result.methods.0 has no setting 'accepted'"):
        Result.load(path)


def test_a_result_needs_a_method() -> None:
    with pytest.raises(ValueError, match="draws is empty"):
        compare_results(TARGET, {})
