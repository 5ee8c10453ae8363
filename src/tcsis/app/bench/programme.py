"""The full programme, and the quick one, which takes about a minute."""

from __future__ import annotations

from dataclasses import replace

from tcsis.app.bench.learned import Trained, by_displacement, by_site
from tcsis.app.bench.others import Dwave, Mcising, spins_alone, without_disorder
from tcsis.app.bench.plan import Family, Ladder, Method, Plan
from tcsis.app.bench.targets import (
    CRITICAL,
    GlassAt,
    IsingAt,
    OrderParameter,
    PottsAtTransition,
    SquaredOverlap,
    glass_truth,
    ising_truth,
    potts_truth,
    sign_of_magnetisation,
    squared_magnetisation,
)
from tcsis.app.bench.ways import Annealing, Kernel, Tempering, cluster_moves

MAGNETISATION = ("m²", squared_magnetisation)
OVERLAPS = tuple((f"q² with exact draw {k}", SquaredOverlap(k)) for k in (0, 1))

FAMILIES = (
    Family("critical", "Ising, critical", (8, 12, 16, 24, 32), IsingAt(CRITICAL), ising_truth,
           (MAGNETISATION,), Ladder(0.7, 1.2, 4), ferromagnet=True),
    Family("cold", "Ising, β = 0.6, both signs", (8, 12, 16, 24), IsingAt(0.6), ising_truth,
           (MAGNETISATION, ("sign of m", sign_of_magnetisation)), Ladder(0.6, 1.2, 5),
           ferromagnet=True),
    Family("potts", "Potts V = 10, transition", (8, 12, 16), PottsAtTransition(10), potts_truth,
           (("order parameter", OrderParameter(10)),), Ladder(0.75, 4.0, 16), ferromagnet=True,
           patience=4.0),
    Family("glass-2", "±J glass, β = 2", (6, 8, 10, 12), GlassAt(2.0), glass_truth, OVERLAPS,
           Ladder(0.15, 0.8, 8), ferromagnet=False),
    Family("glass-3", "±J glass, β = 3", (6, 8, 10, 12), GlassAt(3.0), glass_truth, OVERLAPS,
           Ladder(0.1, 0.8, 10), ferromagnet=False),
)  # fmt: skip

METHODS = (
    Method("gibbs", "heat-bath sweeps", Kernel("gibbs", 128)),
    Method("wolff", "Wolff", Kernel("wolff", 32), serves=cluster_moves),
    Method("swendsen-wang", "Swendsen–Wang", Kernel("swendsen-wang", 32), serves=cluster_moves),
    Method("tempering", "parallel tempering", Tempering(32, 5)),
    Method("annealing", "population annealing", Annealing(4_096, 10)),
    Method("autoregressive", "learned, autoregressive", Trained("autoregressive", 8_192),
           learned=True, serves=by_site),
    Method("any-time", "learned, any-time", Trained("any-time", 8_192), learned=True,
           serves=by_displacement),
    Method("mcising-metropolis", "mcising, Metropolis", Mcising("metropolis", 16), needs="mcising",
           serves=without_disorder),
    Method("mcising-wolff", "mcising, Wolff", Mcising("wolff", 16), needs="mcising",
           serves=without_disorder),
    Method("dwave", "dwave, Metropolis", Dwave(32), needs="dwave.samplers", serves=spins_alone),
)  # fmt: skip

FULL = Plan(
    "full", FAMILIES, METHODS, 10.0,
    {6: 15.0, 8: 20.0, 10: 25.0, 12: 40.0, 16: 90.0, 24: 240.0, 32: 480.0},
    guarded=(
        "critical-12-gibbs", "critical-12-wolff", "critical-12-swendsen-wang",
        "critical-12-mcising-wolff", "critical-12-mcising-metropolis",
        "glass-2-6-tempering", "glass-2-6-annealing", "glass-2-6-autoregressive",
    ),
)  # fmt: skip

QUICK_SIDES = {"critical": (4, 6), "cold": (4, 6), "potts": (3, 4), "glass-2": (4,)}
QUICK_STEPS = 40
QUICK_NAMES = ("gibbs", "wolff", "tempering", "annealing", "autoregressive")


def shortened(method: Method) -> Method:
    """A few steps of training, and fewer replicas."""
    if isinstance(way := method.way, Trained):
        return replace(method, way=replace(way, steps=QUICK_STEPS, num_draws=2_048))
    if isinstance(way, Annealing):
        return replace(method, way=replace(way, num_replicas=512))
    return method


QUICK = Plan(
    "quick",
    tuple(replace(f, sides=QUICK_SIDES[f.name]) for f in FAMILIES if f.name in QUICK_SIDES),
    tuple(shortened(method) for method in METHODS if method.name in QUICK_NAMES),
    2.0, {3: 3.0, 4: 3.0, 6: 3.0},
    guarded=(
        "critical-6-gibbs", "critical-6-wolff", "critical-6-tempering",
        "glass-2-4-gibbs", "glass-2-4-annealing",
    ),
)  # fmt: skip
