"""What the symmetry of a target demands of its draws, mode by mode and site by site."""

from __future__ import annotations

import math

import torch
from scipy.stats import binom
from torch import Tensor

from tcsis.judging import weights
from tcsis.judging.chances import bennett
from tcsis.judging.evidence import Evidence
from tcsis.judging.findings import SMALL_BIAS, Finding, grade_chance


def check_symmetry(evidence: Evidence) -> Finding | None:
    """Where values can be exchanged, each leads in the same share of the draws and is as frequent
    as the others at every site; where the lattice can be shifted, all sites are alike."""
    modes, sites = check_modes(evidence), check_sites(evidence)
    if modes is not None and modes.level != "trusted":
        return modes
    if sites is not None and sites.level != "trusted":
        return sites
    if (modes is None and sites is None) or evidence.has_exact:
        return None
    what = "sites" if modes is None else "modes and sites"
    return Finding("trusted", f"the {what} are as balanced as symmetry demands")


def exchangeable(evidence: Evidence) -> bool:
    """Whether any value may stand for any other."""
    target = evidence.reference.target
    symmetries = target.symmetries
    return symmetries.value_permutation or (symmetries.flip and target.num_values == 2)


def check_modes(evidence: Evidence) -> Finding | None:
    if not exchangeable(evidence):
        return None
    v = evidence.reference.target.num_values
    shares = evidence.evaluation["modes"].estimate
    value = int(shares.argmax())
    largest = float(shares[value])
    n = max(1, round(evidence.num_effective))
    # as many draws or more with the same leader, any of the v values, if all are equally likely
    chance = min(1.0, v * float(binom.sf(math.ceil(largest * n - 0.5) - 1, n, 1 / v)))
    excess = (largest - 1 / v) / math.sqrt((1 - 1 / v) / v)  # in standard deviations
    level = graded(evidence, chance, excess)
    if level == "trusted":
        return Finding(level, "the modes are balanced")
    why = (
        f"value {value} leads in {largest:.0%} of the draws, "
        f"though the symmetry of the target makes it {1 / v:.0%}"
    )
    if float(shares.min()) < weights.MISSING / v:
        perplexity = float(torch.special.entr(shares).sum().exp())
        why += f": {weights.name_modes(perplexity / v)}"
    return Finding(level, why)


def check_sites(evidence: Evidence) -> Finding | None:
    """Every site against 1/V, or against the mean of all sites, from which a site of so many
    independent draws deviates by no more than it does from its own mean."""
    target = evidence.reference.target
    if not exchangeable(evidence) and not target.symmetries.translations:
        return None
    shares = evidence.evaluation["site marginals"].estimate  # (d, v)
    demanded = demanded_shares(shares, exchangeable(evidence))
    n, gap = evidence.num_effective, (shares - demanded).abs()
    spread = demanded * (1 - demanded)
    chance = bennett(gap * n, spread * n, torch.ones_like(spread)) * shares.numel()
    bias = torch.where(gap == 0, 0.0, gap / spread.sqrt())
    k = int(chance.argmin())
    i, value = divmod(k, shares.shape[1])
    level = graded(evidence, float(chance.flatten()[k]), float(bias.flatten()[k]))
    if level == "trusted":
        return Finding(level, "the sites are balanced")
    return Finding(
        level,
        f"{target.names.tell(i, value)} in {float(shares[i, value]):.1%} of the draws, though the "
        f"symmetry of the target makes it {float(demanded[i, value]):.1%}",
    )


def demanded_shares(shares: Tensor, alike: bool) -> Tensor:
    """What each of (d, v) shares should be."""
    return (
        torch.full_like(shares, 1 / shares.shape[1]) if alike else shares.mean(0).expand_as(shares)
    )


def graded(evidence: Evidence, chance: float, bias: float) -> str:
    """A bias of draws whose weights repair it must matter."""
    return "trusted" if evidence.repairable and bias < SMALL_BIAS else grade_chance(chance)
