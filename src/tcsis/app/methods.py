"""Methods by name or as objects, each within a budget.

A method without a budget runs as it is.  With one it spends it on the same number of draws: chains
by taking more steps, annealing by climbing a finer ladder, learned samplers by training as long.
Short trials tell what a step costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeVar, cast, get_args

from rich.console import Console

from tcsis import exact, mcmc
from tcsis.basics.clock import BudgetError
from tcsis.draws import Draws, Sampler
from tcsis.learn.config import Config
from tcsis.learn.learned import Learned
from tcsis.learn.presets import MethodName
from tcsis.learn.trainer import train
from tcsis.mcmc.runner import KERNELS
from tcsis.peers import dnfs, leaps, mdns, sdds, van
from tcsis.peers.peer import Peer
from tcsis.reverse.unlearned import learning_free
from tcsis.targets.base import Target

Equal = Literal["seconds", "densities"]
Trained = TypeVar("Trained", bound=Sampler)
Named = str | Sampler | tuple[str, Draws | Sampler]

LEARNED: tuple[str, ...] = get_args(MethodName)
PEERS: dict[str, Callable[..., Sampler]] = {
    "leaps": leaps.train,
    "dnfs": dnfs.train,
    "mdns": mdns.train,
    "sdds": sdds.train,
    "van": van.train,
}
"""How the neural samplers of others are trained, by the name they go by."""
NUM_CHAINS = 100
BURN_IN = 0.2
"""Share of a chain's steps that is dropped."""
DEFAULT_STEPS = 2_000
TRIAL_SECONDS = 1.0


@dataclass(frozen=True)
class Spent:
    """A price or a budget, in wall time and in density evaluations."""

    seconds: float
    densities: float


@dataclass(frozen=True)
class Entry:
    """What one method gave, and what its training cost before."""

    draws: Draws
    training: Spent = Spent(0.0, 0.0)
    model: Learned | Peer | None = None

    @classmethod
    def of(cls, sampler: Sampler, draws: Draws) -> Entry:
        """Draws of a sampler, with what its training cost where it was trained."""
        spent = Spent(getattr(sampler, "seconds", 0.0), getattr(sampler, "num_density_calls", 0.0))
        return cls(draws, spent, sampler if isinstance(sampler, Learned | Peer) else None)

    @property
    def total(self) -> Spent:
        return Spent(
            self.training.seconds + self.draws.seconds,
            self.training.densities + self.draws.num_density_calls,
        )


@dataclass(frozen=True)
class Training:
    """What learned methods are told, as for ``tcsis.train``.  ``config`` is for the method of its
    kind, the preset for all others, and the ``folder`` for ``keeps``, one method alone."""

    preset: str | None = None
    config: Config | None = None
    steps: int | None = None
    time_budget: float | None = None
    folder: str | Path | None = None
    resume: bool = False
    checkpoint_every: float = 30.0
    keeps: str | None = None


@dataclass(frozen=True)
class Plan:
    """What every method is told."""

    target: Target
    n: int
    seed: int
    equal: Equal = "seconds"
    progress: bool = False
    training: Training = Training()

    def note(self, text: str) -> None:
        if self.progress:
            Console(stderr=True, highlight=False).print(text)


# -- by name -------------------------------------------------------------------------------------

Maker = Callable[[Plan, Spent | None], Entry]


def name_methods(methods: Sequence[Named]) -> dict[str, Maker]:
    """A function for every method, by the name it goes by in tables."""
    makers: dict[str, Maker] = {}
    for method in methods:
        name, maker = (method, find_maker(method)) if isinstance(method, str) else ready(method)
        if name in makers:
            raise ValueError(f"methods has {name!r} twice: expected every name once")
        makers[name] = maker
    if not makers:
        raise ValueError("methods is empty: expected at least one")
    return makers


def find_maker(name: str) -> Maker:
    own: dict[str, Maker] = {
        "learning-free": without_learning,
        "population-annealing": by_annealing,
        "exact": exactly,
    }
    if name in LEARNED:
        return lambda plan, budget: by_training(plan, budget, name)
    if name in PEERS:
        return lambda plan, budget: by_peer(plan, budget, name)
    if name in KERNELS:
        return lambda plan, budget: by_chains(plan, budget, name)
    if name in own:
        return own[name]
    known = [*LEARNED, *PEERS, *own, *KERNELS]
    close = get_close_matches(name, known, 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise ValueError(f"method is {name!r}: expected one of {', '.join(known)}{hint}")


def ready(method: Sampler | tuple[str, Draws | Sampler]) -> tuple[str, Maker]:
    """Anything that draws, or a name with that or with draws that are there already."""
    pair = isinstance(method, tuple) and len(method) == 2 and isinstance(method[0], str)
    name, value = cast(tuple[str, Any], method if pair else (name_of(method), method))
    if pair and isinstance(value, Draws):
        return name, lambda plan, budget: Entry(value)
    if isinstance(value, Sampler) and not isinstance(value, type | ModuleType):
        return name, lambda plan, budget: draw_from(value, plan)
    raise ValueError(
        f"method {name} is a {type(value).__name__}: expected a name, a sampler with "
        "sample(n, *, seed), or a pair of a name and draws or a sampler"
    )


def name_of(sampler: Any) -> str:
    """What a sampler without a name goes by."""
    return getattr(sampler, "kind", type(sampler).__name__)


def draw_from(sampler: Sampler, plan: Plan) -> Entry:
    return Entry.of(sampler, sampler.sample(plan.n, seed=plan.seed))


def by_training(plan: Plan, budget: Spent | None, method: str) -> Entry:
    """As the preset has it where it comes first; after that, as long as the first one took."""
    told = plan.training
    keeps = told.keeps == method
    own = told.config is not None and told.config.method.kind == method

    def trained(time_budget: float | None) -> Learned:
        return train(
            plan.target, None if own else method, None if own else told.preset,
            config=told.config if own else None, seed=plan.seed, steps=told.steps,
            time_budget=time_budget, folder=told.folder if keeps else None,
            resume=told.resume and keeps, checkpoint_every=told.checkpoint_every,
            progress=plan.progress,
        )  # fmt: skip

    return draw_from(in_time(plan, budget, trained), plan)


def by_peer(plan: Plan, budget: Spent | None, name: str) -> Entry:
    """A neural sampler of others, trained as long as the first method took."""

    def trained(time_budget: float | None) -> Sampler:
        return PEERS[name](
            plan.target, seed=plan.seed, steps=plan.training.steps, time_budget=time_budget,
            progress=plan.progress,
        )  # fmt: skip

    return draw_from(in_time(plan, budget, trained), plan)


def in_time(
    plan: Plan, budget: Spent | None, trained: Callable[[float | None], Trained]
) -> Trained:
    """A model that is trained within the limit.  Where the first method was too cheap for that,
    what is needed is spent and said; what the user asks for is never exceeded."""
    limit, asked = time_limit(plan, budget), plan.training.time_budget
    while True:
        try:
            return trained(limit)
        except BudgetError as error:
            if limit == asked:
                raise
            Console(stderr=True, highlight=False, soft_wrap=True).print(
                f"{error}, more than the first method took, and that is what it has"
            )
            limit = min(asked or error.needed, error.needed)


def time_limit(plan: Plan, budget: Spent | None) -> float | None:
    """Of a training: what was asked for, and no more than the first method took."""
    asked = plan.training.time_budget
    if budget is None or plan.equal != "seconds":
        return asked
    return min(asked or budget.seconds, budget.seconds)


def by_chains(plan: Plan, budget: Spent | None, kernel: str) -> Entry:
    """Chains whose kept draws are spread evenly over the steps after burn-in."""
    num_chains = min(NUM_CHAINS, plan.n)
    num_steps = DEFAULT_STEPS
    if budget is not None:
        num_steps = affordable(
            plan, budget, lambda steps: run_chains(plan, kernel, num_chains, steps, steps)
        )
    burn_in = int(BURN_IN * num_steps)
    num_draws = max(1, min(-(-plan.n // num_chains), num_steps - burn_in))
    thin = (num_steps - burn_in) // num_draws
    burn_in = num_steps - thin * num_draws
    return Entry(run_chains(plan, kernel, num_chains, num_steps, thin, burn_in))


def run_chains(
    plan: Plan, kernel: str, num_chains: int, num_steps: int, thin: int, burn_in: int = 0
) -> Draws:
    return mcmc.sample(
        plan.target, kernel, num_chains=num_chains, num_steps=num_steps, burn_in=burn_in,
        thin=thin, seed=plan.seed, progress=plan.progress,
    )  # fmt: skip


def without_learning(plan: Plan, budget: Spent | None) -> Entry:
    def anneal(num_rungs: int) -> Draws:
        sampler = learning_free(plan.target, num_rungs=num_rungs)
        return sampler.sample(plan.n, seed=plan.seed)

    return Entry(anneal(500 if budget is None else affordable(plan, budget, anneal)))


def by_annealing(plan: Plan, budget: Spent | None) -> Entry:
    def anneal(num_rungs: int) -> Draws:
        population = mcmc.population_annealing(
            plan.target, num_replicas=plan.n, num_rungs=num_rungs, seed=plan.seed
        )
        return population.draws.flat

    return Entry(anneal(50 if budget is None else affordable(plan, budget, anneal)))


def exactly(plan: Plan, budget: Spent | None) -> Entry:
    return draw_from(exact.sampler(plan.target), plan)


# -- equal cost ----------------------------------------------------------------------------------


def affordable(plan: Plan, budget: Spent, run: Callable[[int], Draws]) -> int:
    """The amount of steps or rungs that the budget pays for, as trials of growing length tell."""
    run(1)  # compiles what is compiled
    least, amount = run(1), 2
    draws, enough = run(amount), min(TRIAL_SECONDS, budget.seconds / 20)
    # what does not grow with the amount says nothing of its price
    while draws.seconds - least.seconds < enough and draws.seconds < budget.seconds / 4:
        amount *= 4
        draws = run(amount)
    fixed, trial = price(least, plan.equal), price(draws, plan.equal)
    each = max((trial - fixed) / (amount - 1), trial / amount / 10)  # the clock may jitter
    return max(1, 1 + int((getattr(budget, plan.equal) - fixed) / max(each, 1e-12)))


def price(draws: Draws, equal: Equal) -> float:
    return draws.seconds if equal == "seconds" else draws.num_density_calls


def check_equal(equal: Equal) -> Equal:
    if equal not in ("seconds", "densities"):
        raise ValueError(f"equal is {equal!r}: expected seconds or densities")
    return equal
