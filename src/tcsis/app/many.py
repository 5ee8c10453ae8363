"""Draws that are too many to look at: the states of the first are judged, with the weights of all.

A draw is of the same law whichever it is, so the first of many speak for the others; a share of the
states that only a million draws would show is for the weights of all of them to tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tcsis.app.results import MethodResult, finite
from tcsis.draws import Draws
from tcsis.draws.files import NETCDF, is_ours, load_draws
from tcsis.draws.shards import DIGEST
from tcsis.draws.storage import read_attributes, read_draws, read_weights
from tcsis.judging import weights
from tcsis.judging.checks import check_log_z, check_weights
from tcsis.judging.evidence import Evidence, count_effective
from tcsis.judging.findings import Finding
from tcsis.targets.base import Target

MOST_JUDGED = 2**16


@dataclass(frozen=True)
class Read:
    """Draws of a file to look at, what they are only the first of, and the file's attributes."""

    draws: Draws
    whole: Draws | None
    attrs: Mapping[str, Any]


def read_judged(path: Path) -> Read:
    """All draws of a file, or the first ``MOST_JUDGED`` where they were made in shards."""
    attrs = read_attributes(path)
    in_shards = DIGEST in attrs
    draws, attrs = read_draws(path, MOST_JUDGED if in_shards else None)
    whole = read_weights(path) if in_shards else None
    return Read(draws, whole if whole is not None and len(whole) > len(draws) else None, attrs)


def load_judged(path: str | Path, target: Target) -> tuple[Draws, Draws | None]:
    """The same for anybody's draws of a target, as ``load_draws`` takes them."""
    path = Path(path)
    if path.suffix.lower() in NETCDF and path.is_file() and is_ours(path):
        read = read_judged(path)
        return read.draws, read.whole
    return load_draws(path, target), None


@dataclass(frozen=True)
class Whole:
    """All draws, of which the states are left out; how many independent ones they are worth; and
    what their weights say against them."""

    draws: Draws
    num_effective: float
    trust: weights.Trust | None
    findings: list[Finding | None]

    @classmethod
    def of(cls, whole: Draws, first: Evidence) -> Whole:
        worth = count_effective(whole, first.weighted, first.observables)
        if whole.log_weight is None:
            return cls(whole, worth, None, [])
        trust = weights.trust(whole)
        evidence = replace(first, draws=whole, trust=trust, num_effective=worth)
        against: list[Finding | None] = [
            Finding(found.level, f"of all {len(whole):,} draws, {found.why}")
            for found in (check_log_z(evidence), check_weights(evidence))
            if found is not None and found.level != "trusted"
        ]
        return cls(whole, worth, trust, against)

    def told(self, method: MethodResult) -> MethodResult:
        """The result of the first draws as that of all."""
        draws, verdict = self.draws, method.verdict
        note = f"Judged by the first {method.n:,} of {len(draws):,} draws."
        return method.model_copy(
            update={
                "n": len(draws), "num_judged": method.n, "num_effective": self.num_effective,
                "verdict": verdict.model_copy(update={"why": f"{verdict.why} {note}"}),
                "log_z": finite(draws.log_z), "log_z_error": finite(draws.log_z_error),
                "ess": finite(draws.ess), "elbo": finite(draws.elbo),
                "pareto_k": None if self.trust is None else finite(self.trust.pareto_k),
            }
        )  # fmt: skip
