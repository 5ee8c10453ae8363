"""What every training run does with its learning rate and its weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from tcsis.basics.checks import derive_seed


class DivergedError(RuntimeError):
    """Training gave numbers that are not finite, again and again."""


@contextmanager
def first_weights(seed: int) -> Iterator[None]:
    """What is made inside draws its weights from the seed alone, and disturbs no other draws."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(derive_seed(seed, "weights"))
        yield


def rate_share(step: int, progress: float, warmup: float, final: float) -> float:
    """Linear warm-up over ``warmup`` steps, times half a cosine down to ``final`` as progress goes
    from 0 to 1."""
    warm = min(1.0, (step + 1) / (warmup + 1))
    fall = (1 + math.cos(math.pi * min(1.0, progress))) / 2
    return warm * (final + (1 - final) * fall)


@torch.no_grad()
def move_average(average: nn.Module, now: nn.Module, step: int, ema: float) -> None:
    """θ̄ ← mean over about the last 1/(1 - ema) steps, or over a tenth of all so far; what is not
    trained is copied."""
    decay = min(ema, step / (step + 10))
    for mean, new in zip(average.parameters(), now.parameters(), strict=True):
        mean.lerp_(new, 1 - decay)
    for held, given in zip(average.buffers(), now.buffers(), strict=True):
        held.copy_(given)
