"""Chains as a sampler: as many steps as a number of draws takes."""

from __future__ import annotations

from dataclasses import dataclass

from tcsis.basics.checks import check_counts, check_integer
from tcsis.draws import Draws
from tcsis.mcmc.runner import AnyKernel, find_kernel, sample
from tcsis.targets.base import Target


@dataclass(frozen=True)
class ChainSampler:
    """``num_chains`` chains of ``kernel``, each of which drops ``burn_in`` steps and keeps every
    ``thin``-th state after them."""

    target: Target
    kernel: AnyKernel = "gibbs"
    num_chains: int = 100
    burn_in: int = 100
    thin: int = 1
    progress: bool = False

    def __post_init__(self) -> None:
        find_kernel(self.kernel)
        check_counts(num_chains=self.num_chains, thin=self.thin)
        check_integer("burn_in", self.burn_in, least=0)

    def sample(self, n: int, *, seed: int = 0) -> Draws:
        """Draws (chain, draw, site), equally many of every chain and at least n together."""
        num_chains = min(self.num_chains, check_integer("n", n))
        num_steps = self.burn_in + self.thin * -(-n // num_chains)
        return sample(
            self.target, self.kernel, num_chains=num_chains, num_steps=num_steps,
            burn_in=self.burn_in, thin=self.thin, seed=seed, progress=self.progress,
        )  # fmt: skip
