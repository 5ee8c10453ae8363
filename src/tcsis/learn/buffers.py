"""q(x_0): where training states come from, kept in a buffer that is moved on as training goes.

    Uniform              noise, new at every step
    ModelAndNoise        the model's own draws, resampled by their path weights or as they are,
                         with a share of noise
    Chains               chains that start from noise, a part of the buffer new at each refresh
    PopulationAnnealing  an annealed population, moved on by sweeps of the target

The paper uses the first three; any q with full support has the same minimiser, and the closer it
is to the target, the more of the training is spent where draws will be.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from tcsis.basics.clock import seconds_each
from tcsis.basics.frozen import Frozen, Positive
from tcsis.draws import Draws, systematic_resample
from tcsis.learn.models.last import complete
from tcsis.mcmc import population_annealing, start_chains
from tcsis.mcmc import sample as run_chains
from tcsis.mcmc.allowed import allowed_states, uniform_states
from tcsis.mcmc.gibbs import PairGibbs, SweepGibbs
from tcsis.mcmc.kernel import InTurn, decide
from tcsis.targets.base import Target

FEWEST_REPLICAS, FEWEST_RUNGS = 256, 10
"""The smallest population that is worth training with, however little time there is."""
SHORTEST_TRIAL, LONGEST_TRIAL = 0.05, 0.5
"""Seconds that a trial takes: in less it tells of little but the start of chains."""
NUM_TRIED = 64
"""States at whose neighbours it is seen whether any are forbidden."""
SITES_AND_PAIRS = InTurn((SweepGibbs(), PairGibbs()))

SampleModel = Callable[[int, torch.Generator], Draws]
"""n draws of the model as it is now."""


class Source(Frozen, ABC):
    """Where states come from: ``start`` fills a buffer (size, d) and ``refresh`` moves it on, every
    ``every`` steps."""

    follows_target: ClassVar[bool] = False
    """Whether the states are a population of the target."""
    divided: ClassVar[tuple[str, ...]] = ("size",)
    """Settings that count states of the whole buffer."""

    kind: str
    size: Positive
    every: Positive

    def within(self, target: Target, seconds: float) -> tuple[Source, float]:
        """The same, or a smaller one that fills a buffer in so many seconds, and how many that
        takes; only what takes long has to say so."""
        return self, 0.0

    def share(self, shards: int) -> Source:
        """The same for one of so many shards of the buffer."""
        whole = {name: getattr(self, name) for name in self.divided}
        parts = {name: max(1, n // shards) for name, n in whole.items() if n is not None}
        return self.model_copy(update=parts)

    def scale(self, progress: float) -> float:
        """The power of p̄ that the states follow at this progress of training, from 0 to 1."""
        return 1.0

    def tiny(self) -> Source:
        """A small buffer, for tests and first looks."""
        return self.model_copy(update={"size": 256})

    @abstractmethod
    def start(self, target: Target, generator: torch.Generator) -> Tensor: ...

    @abstractmethod
    def refresh(
        self, target: Target, x: Tensor, model: SampleModel, generator: torch.Generator
    ) -> Tensor: ...


@dataclass
class Buffer:
    """Training states (size, d) and where they come from; there are none before ``start``.  They
    follow p̄^scale."""

    source: Source
    target: Target
    states: Tensor | None = None
    scale: float = 1.0

    def within(self, seconds: float) -> tuple[Source, float]:
        """The source, or a smaller one that fills this buffer in so many seconds, and how many that
        takes."""
        return self.source.within(self.target, seconds)

    def start(self, generator: torch.Generator) -> None:
        self.scale = self.source.scale(0.0)
        self.states = self.source.start(self.target, generator)

    def refresh(
        self, step: int, progress: float, model: SampleModel, generator: torch.Generator
    ) -> None:
        """Move on, where a refresh is due at this step of training."""
        if step and step % self.source.every == 0:
            self.warm_to(self.source.scale(progress), generator)
            self.states = self.source.refresh(self.law, self.all, model, generator)

    def warm_to(self, scale: float, generator: torch.Generator) -> None:
        """Resample the states to another power of p̄, by weights p̄^(scale - before)."""
        if scale != self.scale:
            log_weight = (scale - self.scale) * self.target.log_density(self.all).double()
            self.states = self.all[systematic_resample(log_weight, generator)]
            self.scale = scale

    @property
    def law(self) -> Target:
        """What the states follow now."""
        return self.target if self.scale == 1 else self.target.scaled(self.scale)

    @property
    def of_target(self) -> Tensor | None:
        """States of the target, if that is what they follow."""
        return self.all if self.source.follows_target else None

    def tensors(self) -> dict[str, Tensor]:
        """Everything that changes in training, by name."""
        return {"buffer": self.all, "scale": torch.tensor(self.scale, dtype=torch.float64)}

    def place(self, tensors: dict[str, Tensor]) -> None:
        """Put back what ``tensors`` gave."""
        self.states = tensors["buffer"].to(self.target.device).clone()
        self.scale = float(tensors["scale"]) if "scale" in tensors else 1.0

    @property
    def held(self) -> Tensor:
        """All states, as they are kept."""
        assert self.states is not None, "the buffer has not been started"
        return self.states

    @property
    def all(self) -> Tensor:
        """Those that training sees now, (n, d)."""
        return self.held


class Uniform(Source):
    """Uniform noise, all of it new every time."""

    kind: Literal["uniform"] = "uniform"
    size: Positive = 4_096
    every: Positive = 1

    def start(self, target: Target, generator: torch.Generator) -> Tensor:
        return uniform_states(target, self.size, generator)

    def refresh(
        self, target: Target, x: Tensor, model: SampleModel, generator: torch.Generator
    ) -> Tensor:
        return self.start(target, generator)


class Chains(Source):
    """A replay buffer of chain ends: each refresh runs ``num_chains`` new chains from noise, which
    take the places of random old ones."""

    divided: ClassVar[tuple[str, ...]] = ("size", "num_chains")

    kind: Literal["mcmc"] = "mcmc"
    kernel: str = "gwg"
    num_steps: Positive = 1_000
    size: Positive = 4_096
    num_chains: Positive = 64
    every: Positive = 50

    def start(self, target: Target, generator: torch.Generator) -> Tensor:
        return self.run(target, self.size, generator)

    def refresh(
        self, target: Target, x: Tensor, model: SampleModel, generator: torch.Generator
    ) -> Tensor:
        return replaced(x, self.run(target, min(self.num_chains, len(x)), generator), generator)

    def run(self, target: Target, n: int, generator: torch.Generator) -> Tensor:
        draws = run_chains(
            target, self.kernel, num_chains=n, num_steps=self.num_steps,
            burn_in=self.num_steps - 1, seed=new_seed(generator), progress=False,
        )  # fmt: skip
        return draws.x[:, -1].long().to(target.device)


class ModelAndNoise(Source):
    """A replay buffer of the model's own draws, of which ``noise_share`` are uniform noise.

    With ``resample`` the draws are chosen by their path weights, so the buffer follows the target
    and not what the model takes for it.
    """

    divided: ClassVar[tuple[str, ...]] = ("size", "num_new")

    kind: Literal["model_and_noise"] = "model_and_noise"
    noise_share: Annotated[float, Field(ge=0, le=1)] = 0.1
    resample: bool = False
    size: Positive = 4_096
    num_new: Positive = 256
    every: Positive = 50

    def start(self, target: Target, generator: torch.Generator) -> Tensor:
        return uniform_states(target, self.size, generator)

    def refresh(
        self, target: Target, x: Tensor, model: SampleModel, generator: torch.Generator
    ) -> Tensor:
        choose = by_weight if self.resample else as_drawn
        new = choose(model(min(self.num_new, len(x)), generator), generator).to(target.device)
        random = torch.rand(len(new), 1, device=new.device, generator=generator) < self.noise_share
        new = torch.where(random, uniform_states(target, len(new), generator), new)
        return replaced(x, new, generator)


class PopulationAnnealing(Source):
    """A population annealed to the target, then moved on by steps of ``kernel``, sweeps as a rule:
    one of ``num_moved`` random states, all by default, at each refresh.  Where states are forbidden
    it starts from allowed ones, and sweeps move pairs of sites as well.  Of a buffer in shards each
    is a population of its own, which is resampled within itself."""

    follows_target: ClassVar[bool] = True
    divided: ClassVar[tuple[str, ...]] = ("size", "num_moved")

    kind: Literal["population_annealing"] = "population_annealing"
    kernel: str = "gibbs"
    size: Positive = 4_096
    num_rungs: Positive = 50
    steps_per_rung: Positive = 10
    every: Positive = 4
    num_moved: Positive | None = None

    def within(self, target: Target, seconds: float) -> tuple[Source, float]:
        """Sweeps are timed; where there are too many, replicas and sweeps are cut by about the same
        factor, down to ``FEWEST_REPLICAS`` and ``FEWEST_RUNGS``."""
        x = uniform_states(target, self.size, torch.Generator(target.device).manual_seed(0))
        each = seconds_each(
            lambda n: start_chains(target, self.kernel, x[:n], 0).advance(1), self.size,
            patience=min(max(seconds / 50, SHORTEST_TRIAL), LONGEST_TRIAL),
        )  # fmt: skip
        sweeps = self.num_rungs * self.steps_per_rung
        share = seconds / (self.size * sweeps * each)
        if share >= 1:
            return self, self.size * sweeps * each
        size = min(self.size, max(FEWEST_REPLICAS, int(self.size * share**0.5)))
        sweeps = min(sweeps, max(FEWEST_RUNGS, int(seconds / (size * each))))
        size = min(size, max(FEWEST_REPLICAS, int(seconds / (sweeps * each))))
        num_rungs = min(self.num_rungs, sweeps)
        moved = max(1, int((self.num_moved or self.size) * share))
        smaller = self.model_copy(
            update={
                "size": size, "num_rungs": num_rungs, "steps_per_rung": sweeps // num_rungs,
                "num_moved": min(size, moved),
            }
        )  # fmt: skip
        return smaller, size * sweeps * each

    def tiny(self) -> Source:
        return self.model_copy(update={"size": 256, "num_rungs": 10})

    def start(self, target: Target, generator: torch.Generator) -> Tensor:
        x = allowed_states(target, self.size, generator)
        kernel = self.moves(target, x)
        population = population_annealing(
            target, kernel, num_replicas=self.size, num_rungs=self.num_rungs,
            steps_per_rung=self.steps_per_rung, init=x, seed=new_seed(generator),
        )  # fmt: skip
        return population.draws.x[:, 0].long().to(target.device)

    def refresh(
        self, target: Target, x: Tensor, model: SampleModel, generator: torch.Generator
    ) -> Tensor:
        moved = some(len(x), min(self.num_moved or len(x), len(x)), generator)
        kernel = self.moves(target, x)
        chains = start_chains(target, kernel, x[moved], new_seed(generator))
        chains.advance(1)
        return x.index_copy(0, moved, chains.x.to(x))

    def moves(self, target: Target, x: Tensor) -> str | InTurn:
        """Steps of ``kernel``, or sweeps of sites and of pairs where a neighbour of states x (n, d)
        is forbidden."""
        return SITES_AND_PAIRS if meets_forbidden(target, x) else self.kernel


# -- states ---------------------------------------------------------------------------------------


def replaced(x: Tensor, new: Tensor, generator: torch.Generator) -> Tensor:
    """The states with random ones replaced by new ones."""
    return x.index_copy(0, some(len(x), len(new), generator), new)


def some(n: int, k: int, generator: torch.Generator) -> Tensor:
    """k different numbers below n, (k,)."""
    return torch.randperm(n, device=generator.device, generator=generator)[:k]


def as_drawn(draws: Draws, generator: torch.Generator) -> Tensor:
    return draws.x.long()


def meets_forbidden(target: Target, x: Tensor) -> bool:
    """Whether a neighbour of states x (n, d), of the first of them, is forbidden."""
    free = target.log_ratios(x[:NUM_TRIED]).isfinite()
    if target.possible is not None:  # a value that a site does not have forbids no move
        free = free | ~target.possible.to(free.device)
    return not bool(free.all())


def by_weight(draws: Draws, generator: torch.Generator) -> Tensor:
    assert draws.log_weight is not None
    return draws.x[systematic_resample(draws.log_weight, generator)].long()


def new_seed(generator: torch.Generator) -> int:
    """A seed for what makes its own generators."""
    return int(torch.randint(2**62, (), device=generator.device, generator=generator))


# -- draws in place of states ---------------------------------------------------------------------


def exchanged(
    target: Target, x: Tensor, y: Tensor, gap: Tensor, last: Tensor | None,
    generator: torch.Generator,
) -> Tensor:  # fmt: skip
    """Independence Metropolis: y (b, d), drawn from q, replaces x with probability
    min(1, w(y)/w(x)), which leaves p invariant whatever q is; ``gap`` (2b,) holds the log weights
    of x and of y.  The last class of y is drawn where it is taken."""
    log_w, log_w_new = gap.chunk(2)
    accepted = decide((log_w_new - log_w).clamp_max(0).where(~log_w.isneginf(), 0.0), generator)
    rows = (accepted & ~log_w_new.isneginf()).nonzero().squeeze(1)
    return x.index_copy(0, rows, complete(target, y[rows], last, generator)[0]) if len(rows) else x
