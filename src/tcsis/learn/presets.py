"""Ready-made configs: ``fast`` for any target, ``paper`` as in the paper, ``tiny`` for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from tcsis.learn import losses
from tcsis.learn.any_time import AnyTime
from tcsis.learn.asks import DENSITIES
from tcsis.learn.autoregressive import Autoregressive
from tcsis.learn.buffers import Chains, ModelAndNoise, PopulationAnnealing, Uniform
from tcsis.learn.config import AnySource, Config, Optimisation
from tcsis.learn.estimators import JointColoured, JointGuided, LogMarginal, Naive, Warm
from tcsis.learn.models import marginal
from tcsis.learn.models.trees import parents
from tcsis.learn.networks import AnyTrunk, Convolutions, Dense, GraphTransformer, Transformer
from tcsis.learn.preconditioning import CrowdTerm
from tcsis.learn.ranged import Ranged
from tcsis.learn.sampling import EULER, SECOND_ORDER
from tcsis.learn.self_normalized import SCORE_ENTROPY, SelfNormalized
from tcsis.learn.unbiased import Unbiased
from tcsis.learn.warming import Warming
from tcsis.mcmc.compiled import attracts, compiles
from tcsis.reverse.schedules import last_sites
from tcsis.targets.base import Target
from tcsis.targets.factors import Factors
from tcsis.targets.pairwise import Pairwise
from tcsis.targets.ranges import Range
from tcsis.targets.resized import halvings

MethodName = Literal["autoregressive", "any-time", "self-normalized", "unbiased"]
Maker = Callable[[Target], Config]

MOST_ALONE = 128
"""Sites of a lattice up to which a network a site is the default."""
MOST_DENSITIES = 2**26
"""Evaluations of a black box that annealing a population may cost."""
MOST_WEIGHTS = 1_000_000
"""Weights of a causal network's first layer, which has one set a site and pair: with more sites the
width falls, down to 8."""

MOST_DENSE = 256
"""Sites up to which a network has a layer over all of them, d² products a channel."""


def default_method(target: Target) -> MethodName:
    """Autoregressive, with a network a site; any-time on a lattice of more than ``MOST_ALONE``
    sites that has translations, where all sites share one, if values are two or all alike."""
    known = target.free.sketch
    symmetries = known.symmetries
    shared = symmetries.translations and (known.num_values == 2 or symmetries.value_permutation)
    return "any-time" if shared and known.num_sites > MOST_ALONE else "autoregressive"


def fast(target: Target, method: str | None = None) -> Config:
    """The best that minutes on two cores give."""
    makers: dict[str, Maker] = {
        "autoregressive": autoregressive,
        "any-time": any_time,
        "self-normalized": self_normalized,
        "unbiased": unbiased,
    }
    return maker_of(method or default_method(target), makers)(target.free)


def paper(target: Target, method: str = "self-normalized") -> Config:
    """Table 1 of the paper: N, proposal, rate, steps and batch for the lattice's size (that of
    side 4 up to 16 sites, that of side 10 above), DiT below a million weights, EMA 0.999."""
    makers: dict[str, Maker] = {
        "self-normalized": paper_self_normalized,
        "unbiased": paper_unbiased,
    }
    return maker_of(method, makers)(target.free)


def tiny(target: Target, method: str | None = None) -> Config:
    """A few seconds of training, for tests."""
    return made_tiny(fast(target, method))


def made_tiny(config: Config) -> Config:
    return config.model_copy(
        update={
            "method": config.method.tiny(),
            "buffer": config.buffer.tiny(),
            "grows": (),
            "optimisation": config.optimisation.model_copy(
                update={"batch_size": 64, "warmup": 10, "ema": 0.9}
            ),
            "num_steps": 60,
            "num_evaluations": 2,
            "num_evaluated": 200,
        }
    )


def ranged(target: Target, over: Range, preset: str = "fast") -> Config:
    """For all targets of a range, ``preset`` "fast" or "tiny"."""
    if preset not in ("fast", "tiny"):
        raise ValueError(f"preset is {preset!r}: expected fast or tiny for a range")
    config = fast_ranged(target, over)
    return made_tiny(config) if preset == "tiny" else config


def fast_ranged(target: Target, over: Range) -> Config:
    """The any-time method for all targets of a range, with a population at every level, a part of
    which is moved on whenever it is the level's turn.  It takes more steps than a single target,
    and sees evidence less often."""
    target = over.end(target.free.sketch)
    if target.costly:
        raise ValueError(
            f"{target} is costly to evaluate, and a range anneals a population at every level: "
            "expected a cheaper density; train on one value at a time by tcsis.train"
        )
    base = any_time(over.least_symmetric(target))
    assert isinstance(base.method, AnyTime)
    inner = base.method.model_copy(update={"evidence": 0.2})
    # clusters move where they do at both ends
    ends = (over.at(target, over.low), target)
    source = annealed_population(next((end for end in ends if not attracts(end)), target))
    return Config(
        method=Ranged(over=over, inner=inner),
        buffer=source.model_copy(
            update={"size": min(1_024, source.size), "every": 1, "num_moved": 256}
        ),
        optimisation=base.optimisation,
        num_steps=base.num_steps * 3 // 2,
        num_evaluations=3,
    )


def choose(target: Target, method: str | None = None, preset: str = "fast") -> Config:
    """A preset by name, for its own first method where none is named."""
    makers = {"fast": fast, "paper": paper, "tiny": tiny}
    if preset not in makers:
        raise ValueError(f"preset is {preset!r}: expected {either(makers)}")
    return makers[preset](target) if method is None else makers[preset](target, method)


def maker_of(method: str, makers: dict[str, Maker]) -> Maker:
    if method not in makers:
        raise ValueError(f"method is {method!r}: this preset has {either(makers)}")
    return makers[method]


def either(names: dict[str, Maker] | dict[str, Callable[..., Config]]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}"


# -- fast -----------------------------------------------------------------------------------------


def autoregressive(target: Target) -> Config:
    """One small network a site, the last colour class from the target, states from an annealed
    population, and an objective that looks at these and at the model's own draws."""
    target = target.sketch
    if target.costly:
        return sparing_autoregressive(target)
    n, v = num_ordered(target), target.num_values
    easy = n <= 24 and v == 2 and isinstance(target, Pairwise)
    width = max(8, min(64 if n <= 24 else 32, MOST_WEIGHTS // (n * n * (1 if v == 2 else v))))
    return Config(
        method=Autoregressive(width=width),
        buffer=annealed_population(target),
        optimisation=Optimisation(learning_rate=1e-2, batch_size=256),
        num_steps=1_000 if easy else 3_000 if n <= 60 else 4_000,
        num_evaluated=10_000,
    )


def any_time(target: Target) -> Config:
    """One network for any known sites, shared by sites that see the others alike; where none do,
    each has first weights of its own, which learn faster.  Large targets see evidence less often,
    for a step costs more there."""
    target = target.sketch
    if target.costly:
        return sparing_any_time(target)
    d, v, symmetries = target.num_sites, target.num_values, target.symmetries
    rows = 1 if symmetries.translations else d
    inputs = 1 if v == 2 or symmetries.value_permutation else v
    width = max(16, min(64 if rows == 1 else 32, MOST_WEIGHTS // (rows * d * inputs)))
    return Config(
        method=AnyTime(
            width=width,
            reach=128 if target.colouring is not None else d,
            evidence=0.5 if d <= MOST_ALONE else 0.2,
        ),
        buffer=annealed_population(target),
        optimisation=Optimisation(learning_rate=4e-3 if rows == 1 else 1e-2, batch_size=128),
        num_steps=8_000 if rows > 1 else 4_000 if d <= MOST_ALONE else 3_000,
        grows=halvings(target) if d > MOST_ALONE else (),
        num_evaluations=3,
    )


def sparing_autoregressive(target: Target) -> Config:
    """The same for a costly density: no ratios, few draws that are new, evaluations of few draws;
    the model is trained along with states that warm up."""
    d, v = target.num_sites, target.num_values
    width = max(8, min(64 if d <= 24 else 32, MOST_WEIGHTS // (d * d * (1 if v == 2 else v))))
    return Config(
        method=Autoregressive(width=width, asks=DENSITIES),
        buffer=Warming(),
        optimisation=Optimisation(learning_rate=1e-2, batch_size=256),
        num_steps=3_000 if d <= 60 else 4_000,
        num_evaluations=3,
        num_evaluated=1_000,
    )


def sparing_any_time(target: Target) -> Config:
    """The same for any known sites."""
    d, v = target.num_sites, target.num_values
    inputs = 1 if v == 2 else v
    return Config(
        method=AnyTime(
            width=max(16, min(32, MOST_WEIGHTS // (d * d * inputs))), reach=d,
            evidence=0.5 if d <= MOST_ALONE else 0.2, asks=DENSITIES,
        ),
        buffer=Warming(),
        optimisation=Optimisation(learning_rate=1e-2, batch_size=128),
        num_steps=8_000,
        num_evaluations=3,
        num_evaluated=1_000,
    )  # fmt: skip


def self_normalized(target: Target) -> Config:
    """All sites at one time, with a light network and posterior sweeps from a population."""
    small, dense = target.num_sites <= 36, sees_all_alike(target)
    return Config(
        method=SelfNormalized(
            network=Dense(width=64) if dense else site_network(target, width=16),
            estimator=Warm(num_sweeps=2),
            step=SECOND_ORDER,
            num_calls=24 if small else 64,
        ),
        buffer=annealed_population(target),
        optimisation=Optimisation(learning_rate=3e-3 if dense else 2e-3),
        num_steps=(1_500 if small else 5_000) if dense else (800 if small else 1_000),
        num_evaluations=3,
        num_evaluated=500 if small else 200,
    )


def unbiased(target: Target) -> Config:
    """The same with joint estimates, which train marginal and denoiser without bias."""
    base, few, dense = self_normalized(target), target.num_sites <= 20, sees_all_alike(target)
    assert isinstance(base.method, SelfNormalized)
    coloured = target.colouring is not None and few and not dense
    method = Unbiased(
        network=base.method.network,
        estimator=JointColoured(num_samples=64)
        if coloured
        else JointGuided(num_chains=8, num_rungs=6 if few else 12),
        preconditioning=CrowdTerm(),
        noise_eps=1e-3,
        step=base.method.step,
        num_calls=base.method.num_calls,
    )
    num_steps = (1_000 if few else 1_500) if dense else (400 if few else 500)
    return base.model_copy(update={"method": method, "num_steps": num_steps})


# -- paper ----------------------------------------------------------------------------------------


def paper_self_normalized(target: Target) -> Config:
    large = target.num_sites > 16
    method = SelfNormalized(
        objective=SCORE_ENTROPY,
        network=Transformer(width=64, depth=4, heads=4),
        estimator=Naive(num_samples=2_000 if large else 500),
        symmetric=False,
        preconditioned=False,
        noise_eps=1e-3,
        step=EULER,
        num_calls=64 if large else 24,
    )
    buffer = ModelAndNoise(noise_share=0.1) if large else Uniform(size=64)
    rate, steps = (3e-6, 150_000) if large else (1e-5, 50_000)
    return paper_run(method, buffer, rate, steps)


def paper_unbiased(target: Target) -> Config:
    large = target.num_sites > 16
    method = Unbiased(
        objective=losses.scaled,
        network=Transformer(width=64, depth=4, heads=4),
        estimator=LogMarginal(num_samples=500 if large else 100),
        scores=marginal.assembled,
        symmetric=False,
        noise_eps=1e-3,
        step=EULER,
        num_calls=64 if large else 24,
    )
    buffer = Chains(kernel="gwg", num_steps=1_000)
    config = paper_run(method, buffer, 1e-4, 100_000 if large else 50_000)
    return config.model_copy(update={"dtype": "float64" if large else "float32"})


def paper_run(
    method: SelfNormalized | Unbiased, buffer: AnySource, learning_rate: float, num_steps: int
) -> Config:
    return Config(
        method=method,
        buffer=buffer,
        optimisation=Optimisation(
            learning_rate=learning_rate, warmup=0, final=1.0, batch_size=64, weight_decay=0.0,
            ema=0.999,
        ),
        num_steps=num_steps,
        num_evaluations=10,
        num_evaluated=200,
    )  # fmt: skip


# -- parts ----------------------------------------------------------------------------------------


def annealed_population(target: Target) -> PopulationAnnealing:
    """A sweep of the whole population often where sweeps are compiled, of a part where each site
    costs densities, or pairs of sites have to move.  On large ferromagnets without fields, where
    sweeps are slow to change what is large, clusters move."""
    hard = isinstance(target, Factors) and target.forbids_more
    if target.num_sites > MOST_ALONE and attracts(target):
        return PopulationAnnealing(kernel="swendsen-wang", steps_per_rung=2, every=4)
    if compiles(target) and not hard:
        return PopulationAnnealing(size=4_096, every=4)
    num_rungs, steps_per_rung = (20, 2) if hard else (40, 2)
    sweeps = num_rungs * steps_per_rung * target.num_sites * target.num_values
    if hard:  # pairs of sites have V² states
        sweeps *= 1 + target.num_values
    size = max(256, min(2_048, (MOST_DENSITIES >> 3 if hard else MOST_DENSITIES) // sweeps))
    return PopulationAnnealing(
        size=size, num_rungs=num_rungs, steps_per_rung=steps_per_rung, every=8, num_moved=256
    )


def site_network(target: Target, width: int) -> AnyTrunk:
    """A network for any times that fits the target's sites."""
    if target.lattice is not None and len(target.lattice.shape) <= 3:
        return Convolutions(width=width, depth=4)
    if target.pairs is not None and target.colouring is not None:
        return GraphTransformer(width=2 * width, depth=3)
    return Transformer(width=2 * width, depth=3)


def sees_all_alike(target: Target) -> bool:
    """Whether spins may share one layer over all sites, which then learns more of them in the same
    time than convolutions do: every site must see the others alike, and they must not be many."""
    d, v = target.num_sites, target.num_values
    return v == 2 and target.symmetries.translations and d <= MOST_DENSE


def num_ordered(target: Target) -> int:
    """Sites that the autoregressive method draws one by one."""
    last = None if parents(target) is not None else last_sites(target)
    return target.num_sites - (0 if last is None else len(last))
