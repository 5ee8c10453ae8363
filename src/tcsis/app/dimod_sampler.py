"""``TCSISSampler``, a sampler of dimod: where D-Wave's samplers go, this goes too.

Of a model with energy E it draws from p(x) ∝ exp(-β·E(x)): exact draws where there are any, which
are independent and perfect, else draws of a sampler that is trained for the model.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch

from tcsis import exact
from tcsis.basics.checks import check_integer
from tcsis.basics.optional import missing
from tcsis.distribution import Distribution
from tcsis.formats.dimod import from_bqm, from_dqm
from tcsis.learn.trainer import train
from tcsis.targets.base import Target
from tcsis.targets.pairwise import check_beta

try:
    import dimod
except ImportError:
    raise ImportError(missing("dimod", "TCSISSampler", "dimod")) from None

PARAMETERS = ("num_reads", "beta", "seed", "preset", "time_budget")
NUM_READS = 1_000


class TCSISSampler(dimod.Sampler):
    """``TCSISSampler().sample(bqm, num_reads=1000, beta=1.0)``; ``sample_ising``, ``sample_qubo``
    and ``sample_dqm`` take the same.

    All reads count the same: draws of a trained sampler are chosen by weight.  ``info`` says how
    they were made, and has ``log_z`` of exp(-β·E), its standard error, and the ``ess`` of a trained
    sampler.  The same ``seed`` gives the same reads; None stands for 0, and for 1,000 reads.
    """

    @property
    def parameters(self) -> dict[str, list[str]]:
        """What ``sample`` may be told."""
        return {name: [] for name in PARAMETERS}

    @property
    def properties(self) -> dict[str, Any]:
        """What is known of the sampler: nothing that code would have to heed."""
        return {}

    def sample(
        self,
        bqm: dimod.BinaryQuadraticModel,
        *,
        num_reads: int | None = None,
        beta: float = 1.0,
        seed: int | None = None,
        preset: str | None = None,
        time_budget: float | None = None,
        **others: Any,
    ) -> dimod.SampleSet:
        """Draws of a binary quadratic model, in its own variables and vartype.

        ``preset`` and ``time_budget``, in seconds, are those of ``tcsis.train``, for models too
        large for exact draws.  What other samplers know and this one does not is ignored with a
        warning, as dimod has it.
        """
        self.remove_unknown_kwargs(**others)
        num_reads = check_integer("num_reads", NUM_READS if num_reads is None else num_reads)
        if not isinstance(bqm, dimod.BinaryQuadraticModel):
            raise ValueError(
                f"bqm is a {type(bqm).__name__}: expected a dimod.BinaryQuadraticModel"
            )
        variables, log_offset = list(bqm.variables), -check_beta(beta) * float(bqm.offset)
        if not variables:
            none, info = np.empty((num_reads, 0), np.int8), {"log_z": log_offset}
            return dimod.SampleSet.from_samples_bqm(none, bqm, info=info)
        centred = bqm.copy()  # the law does not depend on the offset, but its rounding would
        centred.offset = 0
        target = from_bqm(centred, beta=beta).to(dtype=torch.float64)
        x, info = draw(target, num_reads, seed or 0, preset, time_budget)
        info["log_z"] += log_offset
        values = 2 * x - 1 if bqm.vartype is dimod.SPIN else x
        return sample_set(values, variables, bqm.vartype, bqm.energies, info)

    def sample_dqm(
        self,
        dqm: dimod.DiscreteQuadraticModel,
        *,
        num_reads: int | None = None,
        beta: float = 1.0,
        seed: int | None = None,
        preset: str | None = None,
        time_budget: float | None = None,
        **others: Any,
    ) -> dimod.SampleSet:
        """Draws of a discrete quadratic model, by the numbers of the cases."""
        self.remove_unknown_kwargs(**others)
        num_reads = check_integer("num_reads", NUM_READS if num_reads is None else num_reads)
        if not isinstance(dqm, dimod.DiscreteQuadraticModel):
            raise ValueError(
                f"dqm is a {type(dqm).__name__}: expected a dimod.DiscreteQuadraticModel"
            )
        if not dqm.num_variables():
            return dimod.SampleSet.from_samples([], "DISCRETE", energy=[])
        target = from_dqm(dqm, beta=beta).to(dtype=torch.float64)
        x, info = draw(target, num_reads, seed or 0, preset, time_budget)
        return sample_set(x, list(dqm.variables), "DISCRETE", dqm.energies, info)


def sample_set(
    values: np.ndarray, variables: Sequence[Hashable], vartype: Any, energies: Any, info: Any
) -> dimod.SampleSet:
    """Energies by the model itself, so that they are those of whoever asks it."""
    samples = (values.astype(np.int8 if values.max() < 2**7 else np.int16), variables)
    return dimod.SampleSet.from_samples(
        samples, vartype, energy=energies(samples), info=info, sort_labels=False
    )


def draw(
    target: Target, n: int, seed: int, preset: str | None, time_budget: float | None
) -> tuple[np.ndarray, dict[str, Any]]:
    """n draws of equal weight, (n, d), and how they were made: exact ones, but where there are none
    or where it is too cold for them."""
    if exact.quickly_drawable(target) and exact.affordable(target):
        with suppress(exact.TooColdError):
            how = f"exact, by {exact.solve(target).method}"
            return reads_of(Distribution(target, seed=seed), n, how)
    model = train(target, preset=preset, seed=seed, time_budget=time_budget, progress=False)
    return reads_of(model.as_distribution(seed=seed), n, f"trained, {model.kind}")


def reads_of(source: Distribution, n: int, how: str) -> tuple[np.ndarray, dict[str, Any]]:
    info: dict[str, Any] = {
        "sampler": how, "log_z": source.log_z, "log_z_error": source.log_z_error,
    }  # fmt: skip
    if source.truth is None:
        info["ess"] = source.estimate.ess
    return source.sample((n,)).numpy(), info
