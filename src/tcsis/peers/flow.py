"""Draws of the peers that go along the path in continuous time, LEAPS and DNFS."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar, TypeVar

import torch
from torch import Tensor, nn

from tcsis.basics.checks import check_integer
from tcsis.basics.frozen import Positive
from tcsis.draws import Draws
from tcsis.peers.path import Rates, Weigh, continuous_weights, sample
from tcsis.peers.peer import Peer, PeerConfig
from tcsis.targets.base import Target


class FlowConfig(PeerConfig):
    """``num_calls``, the steps of a draw, follows from the size of the target where it is None."""

    num_calls: Positive | None = None


Config = TypeVar("Config", bound=FlowConfig)
Model = TypeVar("Model", bound=nn.Module)


class Flow(Peer[Config, Model]):
    """A chain along the path by its ``rates``."""

    stir: ClassVar[float] = 0.0

    weigh = staticmethod(continuous_weights)

    @property
    @abstractmethod
    def rates(self) -> Rates: ...

    def sample(
        self,
        n: int,
        *,
        seed: int = 0,
        calls: int | None = None,
        generator: torch.Generator | None = None,
        batch_size: int = 2_000,
        stir: float | None = None,
        weigh: Weigh | None = None,
    ) -> Draws:
        """n draws with their weights, by ``calls`` steps of time.

        ``weigh`` is ``continuous_weights``, those of the papers, for which E[w] = Z as the steps
        become many; or ``discrete_weights``, for which that holds for any number if ``stir``, the
        rate at which sites draw anew from their conditionals, is above zero (1, say).  Left out,
        both are as the class has them.
        """
        calls = self.num_calls if calls is None else check_integer("calls", calls)
        stirred = self.stir if stir is None else stir
        weighed = self.weigh if weigh is None else weigh
        if not 0 <= stirred < math.inf:
            raise ValueError(f"stir is {stir}: expected a rate of 0 or more")

        def draw(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
            return sample(
                self.rates, self.target.free, n, calls, generator=generator, stir=stirred,
                weigh=weighed,
            )  # fmt: skip

        return self.collect(
            n, draw, seed=seed, generator=generator, batch_size=batch_size, calls=calls + 1
        )

    @property
    def num_calls(self) -> int:
        """The steps of ``sample`` where none are asked for."""
        return self.config.num_calls or default_calls(self.target.free)


def default_calls(target: Target) -> int:
    return 24 if target.num_sites <= 36 else 64
