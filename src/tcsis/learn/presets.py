"""Ready-made configs: ``fast`` for any target, ``paper`` as in the paper, ``tiny`` for tests."""

from __future__ import annotations

from tcsis.learn.config import Config, Method, Network, Optimisation, Part
from tcsis.reverse.schedules import last_class
from tcsis.targets.base import Target
from tcsis.targets.pairwise import Pairwise

MOST_WEIGHTS = 1_000_000
"""Weights of a causal network's first layer, which has one set a site and pair."""


def fast(
    target: Target, method: Method = "self-normalized", schedule: str = "sequential"
) -> Config:
    """The best that minutes on two cores give.

    Sequential: one small network a site, the last colour class from the target, states from an
    annealed population, and the spread of the log weights itself as the objective.  Parallel: all
    sites at one time, with a light network and posterior sweeps from the same population.
    """
    makers = {
        ("self-normalized", "sequential"): sequential,
        ("unbiased", "sequential"): unbiased_sequential,
        ("self-normalized", "parallel"): parallel,
        ("unbiased", "parallel"): unbiased_parallel,
    }
    if (method, schedule) not in makers:
        raise ValueError(
            f"method is {method!r} and schedule {schedule!r}: expected self-normalized or "
            "unbiased, and sequential or parallel"
        )
    return makers[method, schedule](target)


def sequential(target: Target) -> Config:
    n, v = num_ordered(target), target.num_values
    width = max(8, min(64 if n <= 24 else 32, MOST_WEIGHTS // (n * n * (1 if v == 2 else v))))
    return Config(
        objective="spread",
        network=Network(name="causal", width=width),
        estimator=Part(name="conditionals"),
        proposal=annealed_population(target),
        optimisation=Optimisation(batch_size=512),
        num_steps=1_500 if n <= 24 and v == 2 else 4_000,
        num_calls=n,
        num_evaluated=10_000,
    )


def unbiased_sequential(target: Target) -> Config:
    """Sequential marginals are exact, so nothing has to average out, and squares are best."""
    return sequential(target).model_copy(update={"method": "unbiased", "objective": "squares"})


def parallel(target: Target) -> Config:
    small = target.num_sites <= 36
    return Config(
        schedule="parallel",
        objective="path",
        network=site_network(target, width=16),
        estimator=Part(name="warm", settings={"num_sweeps": 2}),
        proposal=annealed_population(target),
        num_steps=800 if small else 1_000,
        num_calls=24 if small else 64,
        reverse_step="trapezoidal",
        num_evaluations=3,
        num_evaluated=500 if small else 200,
    )


def unbiased_parallel(target: Target) -> Config:
    small = target.num_sites <= 20
    coloured = target.colouring is not None and small
    estimator = (
        Part(name="joint_coloured", settings={"num_samples": 64})
        if coloured
        else Part(name="joint_guided", settings={"num_chains": 8, "num_rungs": 12})
    )
    return parallel(target).model_copy(
        update={
            "method": "unbiased",
            "objective": "itakura-saito",
            "estimator": estimator,
            "crowd_size": 512,
            "noise_eps": 1e-3,
            "num_steps": 400 if small else 500,
        }
    )


def paper(target: Target, method: Method = "self-normalized") -> Config:
    """Table 1 of the paper: N, proposal, rate, steps and batch for the lattice's size (that of
    side 4 up to 16 sites, that of side 10 above), DiT below a million weights, EMA 0.999."""
    large = target.num_sites > 16
    self_normalised = method == "self-normalized"
    rate, steps = {
        (True, False): (1e-5, 50_000),
        (True, True): (3e-6, 150_000),
        (False, False): (1e-4, 50_000),
        (False, True): (1e-4, 100_000),
    }[self_normalised, large]
    samples = {(True, False): 500, (True, True): 2_000, (False, False): 100, (False, True): 500}
    proposals = {
        (True, False): Part(name="uniform", settings={"size": 64}),
        (True, True): Part(name="model_and_noise", settings={"noise_share": 0.1}),
    }
    gwg = Part(name="mcmc", settings={"kernel": "gwg", "num_steps": 1_000})
    return Config(
        method=method,
        schedule="parallel",
        objective="score-entropy",
        network=Network(name="dit", width=64, depth=4, heads=4),
        estimator=Part(
            name="naive" if self_normalised else "log_marginal",
            settings={"num_samples": samples[self_normalised, large]},
        ),
        proposal=proposals.get((self_normalised, large), gwg),
        optimisation=Optimisation(
            learning_rate=rate, warmup=0, final=1.0, batch_size=64, weight_decay=0.0, ema=0.999
        ),
        symmetric=False,
        preconditioned=not self_normalised,
        noise_eps=1e-3,
        dtype="float64" if large and not self_normalised else "float32",
        num_steps=steps,
        num_calls=64 if large else 24,
        reverse_step="euler",
        scores="assembled",
        num_evaluations=10,
        num_evaluated=200,
    )


def tiny(
    target: Target, method: Method = "self-normalized", schedule: str = "sequential"
) -> Config:
    """A few seconds of training, for tests."""
    config = fast(target, method, schedule)
    return config.model_copy(
        update={
            "network": config.network.model_copy(update={"width": 8, "depth": 2}),
            "optimisation": config.optimisation.model_copy(
                update={"batch_size": 64, "warmup": 10, "ema": 0.9}
            ),
            "proposal": Part(
                name="population_annealing",
                settings={**config.proposal.settings, "size": 256, "num_rungs": 10},
            ),
            "crowd_size": min(config.crowd_size, 64),
            "num_steps": 60,
            "num_evaluations": 2,
            "num_evaluated": 200,
        }
    )


# -- parts ----------------------------------------------------------------------------------------


def annealed_population(target: Target) -> Part:
    """A sweep of the whole population often where sweeps are compiled, of a part where each site
    costs densities."""
    if isinstance(target, Pairwise):
        return Part(name="population_annealing", settings={"size": 4_096, "every": 4})
    return Part(name="population_annealing", settings={"size": 2_048, "every": 8, "num_moved": 256})


def site_network(target: Target, width: int) -> Network:
    """A network for any times that fits the target's sites."""
    if target.lattice is not None and len(target.lattice.shape) <= 3:
        return Network(name="lattice", width=width, depth=4)
    if isinstance(target, Pairwise) and target.colouring is not None:
        return Network(name="graph", width=2 * width, depth=3)
    return Network(name="dit", width=2 * width, depth=3)


def num_ordered(target: Target) -> int:
    """Sites that a sequential schedule draws one by one."""
    if target.colouring is None:
        return target.num_sites
    return target.num_sites - len(last_class(target))
