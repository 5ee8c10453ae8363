"""Networks of pgmpy given evidence: exactly, by chains and by a learned sampler."""

import runpy
from pathlib import Path

import pytest

pytest.importorskip("pgmpy")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # of pgmpy
SCRIPT = Path(__file__).parents[2] / "examples" / "bayesian_networks.py"


@pytest.mark.parametrize("name", ["asia", "child", "alarm", "water", "win95pts", "andes"])
def test_elimination_beside_pgmpy(name: str) -> None:
    """log P(evidence) by the rule of the chain, and marginals."""
    found = runpy.run_path(str(SCRIPT))["beside_pgmpy"](name)
    assert found.log_p < 0
    assert found.log_p_gap < 1e-12
    assert found.marginals_gap < 1e-12


@pytest.mark.statistical
def test_samplers_given_evidence() -> None:
    """asia has a node that is the OR of two others: single-site chains cannot leave where they
    began, and are said to have failed; the learned sampler has the marginals within 4 floors and
    log P(evidence) within 4 standard errors, a false alarm in 1,000."""
    gibbs, learned = runpy.run_path(str(SCRIPT))["sampled"]("asia", steps=1_000)
    assert gibbs.error > 20 * gibbs.floor
    assert gibbs.verdict == "failed"
    assert learned.error < 4 * learned.floor
    assert abs(learned.log_p_gap) < 4 * learned.log_p_error + 1e-6
    assert learned.verdict == "trusted"
