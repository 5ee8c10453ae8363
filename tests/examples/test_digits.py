"""A machine of scikit-learn: log Z, draws and evidence beside sums over its hidden units."""

import runpy
from pathlib import Path

import numpy as np
import pytest
import torch

import tcsis

pytest.importorskip("sklearn")

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parents[2] / "examples" / "digits.py"
NUM_ERRORS = 4
"""In standard errors: one false alarm in 15,000 for each of the nine numbers."""


@pytest.mark.statistical
def test_a_machine_beside_its_exact_log_z() -> None:
    script = runpy.run_path(str(SCRIPT))
    machine, held_out = script["fit"](6, num_epochs=20)
    target = tcsis.formats.from_sklearn(machine)
    log_z, on = script["by_hand"](machine)
    truth = tcsis.exact.solve(target.joint)
    assert truth.log_z == pytest.approx(log_z, abs=1e-9)
    np.testing.assert_allclose(truth.site_marginals[:64, 1], on, atol=1e-9)

    model = tcsis.train(target, "any-time", preset="tiny", steps=300, progress=False)
    fine, reference = script["annealed"](target, 100)
    by_weight, elbo, eubo = script["of_model"](model, reference)
    for found in (fine, script["of_population"](target), by_weight):
        assert abs(found.log_z - log_z) < NUM_ERRORS * found.error
    assert elbo.log_z - NUM_ERRORS * elbo.error < log_z < eubo.log_z + NUM_ERRORS * eubo.error
    assert elbo.log_z < eubo.log_z

    part = script["complete"](model, machine, held_out[0])
    upper = dict(enumerate(held_out[0].tolist()[:32]))
    below = tcsis.exact.solve(target.joint.given(upper))
    assert below.log_z - truth.log_z == pytest.approx(part.exact_log_p, abs=1e-9)
    np.testing.assert_allclose(below.site_marginals[:64, 1], part.exact_on, atol=1e-9)
    assert abs(part.log_p - part.exact_log_p) < NUM_ERRORS * part.error
    assert float((part.on - torch.from_numpy(part.exact_on)).abs().max()) < 0.05
