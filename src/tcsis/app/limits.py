"""What this machine cannot do, refused before work begins."""

from __future__ import annotations

import os

from tcsis.app.settings import ChainSettings, DrawingRun, Mcmc, Sample, Settings
from tcsis.basics.memory import check_fits
from tcsis.draws.shards import MOST_AT_ONCE
from tcsis.learn.config import Config
from tcsis.targets.base import Target

JUDGED = 100
"""Bytes of memory for a token of a draw that is judged, of which one is kept: measured from 110 to
140 on lattices of side 4 and 10."""
WEIGHED = 80
"""Of a draw whose weight alone is looked at, beside those of others: measured from 82 to 92."""
TRAINED = 9
"""Bytes for a token of a buffer."""


def check_limits(chosen: Settings, target: Target) -> None:
    """Refuse more threads than cores, and more draws, chains or training states than memory."""
    cores = os.cpu_count() or 1
    if chosen.run.threads is not None and chosen.run.threads > cores:
        raise ValueError(
            f"threads is {chosen.run.threads}: this machine has {cores} cores; expected at most "
            "that many"
        )
    d = target.num_sites
    if isinstance(chosen.run, DrawingRun):
        n = min(chosen.run.n, MOST_AT_ONCE) if isinstance(chosen, Sample) else chosen.run.n
        check_fits("n", n, JUDGED * d, f" draws of {d} sites")
        check_fits("n", chosen.run.n, WEIGHED, " draws")
    if isinstance(chosen, Mcmc):
        check_chains(chosen.mcmc, d)
    config = getattr(chosen, "train", None)
    if isinstance(config, Config):
        check_fits("train.buffer.size", config.buffer.size, TRAINED * d, f" states of {d} sites")
        batch = config.optimisation.batch_size
        check_fits("train.optimisation.batch_size", batch, TRAINED * d, f" states of {d} sites")


def check_chains(chains: ChainSettings, d: int) -> None:
    kept = max(1, (chains.num_steps - chains.burn_in) // chains.thin)
    check_fits("chains", chains.num_chains, JUDGED * d, f" chains of {d} sites")
    check_fits(
        f"chains times the steps that are kept ({chains.num_chains} × {kept})",
        chains.num_chains * kept, JUDGED * d, f" draws of {d} sites",
    )  # fmt: skip
