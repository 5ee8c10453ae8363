"""Training of SDDS: paths of the model's own, and an objective on some of their steps."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from tcsis.peers.path import refuse_forbidden
from tcsis.peers.sdds.chain import Paths, draw_paths, log_bernoulli, uniform
from tcsis.peers.sdds.model import ReverseNetwork, SddsConfig
from tcsis.targets.base import Target

ANNEALED = 0.5
"""Share of a training over which the temperature falls to one."""


class SddsLoss:
    """The objective on a batch of steps of paths, which are drawn anew every few steps."""

    paths: Paths
    signal: Tensor

    def __init__(
        self,
        model: ReverseNetwork,
        target: Target,
        config: SddsConfig,
        generator: torch.Generator,
    ) -> None:
        self.model, self.target, self.config = model, target, config
        self.generator = generator
        refuse_forbidden(target, target.log_density(uniform(target, config.num_paths, generator)))

    def __call__(self, step: int, progress: float) -> Tensor:
        if step % self.config.refresh_every == 0:
            self.renew(inverse_temperature(self.config.first_temperature, progress))
        paths, size = self.paths, (self.config.batch_size,)
        length, n = paths.log_q.shape
        chosen = torch.randint(
            length * n, size, device=paths.log_q.device, generator=self.generator
        )
        row, which = chosen // n, chosen % n  # of step t = row + 1
        logits = self.model(paths.x_t[row, which], row + 1)
        return self.config.objective.loss(
            log_bernoulli(logits, paths.x_before[row, which]), paths.log_q[row, which],
            self.signal[row, which],
        )  # fmt: skip

    @torch.no_grad()
    def renew(self, scale: float) -> None:
        """New paths, and their signal for the target p̄^scale."""
        n = self.config.num_paths
        paths = draw_paths(self.model, self.model.noise, self.target, n, self.generator)
        self.paths = replace(paths, log_density=scale * paths.log_density)
        known = self.target.log_density(paths.x_t.flatten(0, 1)).reshape(paths.log_q.shape)
        refuse_forbidden(self.target, torch.cat([known, paths.log_density[None]]))
        self.signal = self.config.objective.signal(self.paths, known.double())


def inverse_temperature(first: float, progress: float) -> float:
    """1/𝒯, where 𝒯 falls in a line from ``first`` to one over the first half of training."""
    return 1 / (1 + (first - 1) * max(0.0, 1 - progress / ANNEALED))
