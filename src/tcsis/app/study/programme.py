"""The study of the paper: its methods and settings.

The settings are those of the paper; at side 10 β = 0.6, which it left out; and side 16 at the
critical point.
"""

from __future__ import annotations

from tcsis.app.study.plan import Method, Plan, Setting
from tcsis.app.study.ways import (
    CONTINUOUS,
    DISCRETE,
    AsInThePaper,
    Chains,
    Exactly,
    FlowPeer,
    InTime,
    Ladder,
    Learned,
    PapersProcess,
    Peer,
    Preset,
    anneal,
    as_many_as_calls,
    as_the_plan_has_it,
    clusters,
    fewer_chains,
    glauber,
    shared_estimates,
    without_learning,
)
from tcsis.peers import dnfs, leaps, mdns, sdds, van

OURS, PEERS, OTHERS = "this library", "neural samplers of others", "without a network"
BOTH_WEIGHTS = ((CONTINUOUS, "continuous-time weights"), (DISCRETE, "weights of its steps"))
FEW_DRAWS = ((4, 2_000), (10, 200), (16, 50))
"""Of the paper's network, which takes three milliseconds for a state of 10×10."""


def calls_of(setting: Setting) -> int:
    return min(setting.num_calls, setting.side**2 // 2)


METHODS = (
    Method("self-normalized", "TCSIS, self-normalized", OURS,
           Learned(PapersProcess("self-normalized")), 40, 4.0),
    Method("unbiased", "TCSIS, unbiased", OURS, Learned(PapersProcess("unbiased")), 20, 4.0),
    Method("self-normalized-paper", "TCSIS, self-normalized, as in the paper", OURS,
           Learned(AsInThePaper("self-normalized", shared_estimates), num_draws=FEW_DRAWS), 20,
           20.0),
    Method("unbiased-paper", "TCSIS, unbiased, as in the paper", OURS,
           Learned(AsInThePaper("unbiased", fewer_chains), num_draws=((4, 300),)), 10, 25.0,
           sides=(4,)),
    Method("any-time", "TCSIS, any-time, planned blocks", OURS,
           Learned(Preset("any-time"), calls=calls_of), 100, 1.0),
    Method("autoregressive", "autoregressive", OURS, Learned(Preset("autoregressive")), 200, 0.5),
    Method("leaps", "LEAPS", PEERS, FlowPeer(leaps.train, leaps.LeapsConfig()), 100, 4.0,
           readings=BOTH_WEIGHTS),
    Method("dnfs", "DNFS", PEERS, FlowPeer(dnfs.train, dnfs.DnfsConfig()), 20, 16.0,
           readings=BOTH_WEIGHTS),
    Method("mdns", "MDNS", PEERS, Peer(mdns.train, mdns.MdnsConfig()), 50, 1.0),
    Method("sdds", "SDDS", PEERS, Peer(sdds.train, sdds.SddsConfig()), 50, 4.0),
    Method("van", "VAN", PEERS, Peer(van.train, van.VanConfig()), 50, 1.0),
    Method("learning-free", "learning-free, 2,000 rungs", OTHERS,
           Ladder(without_learning, 2_000, ("tcsis.reverse.unlearned",)), drawing=5.0),
    Method("population-annealing", "population annealing, 200 rungs", OTHERS,
           Ladder(anneal, 200, ("tcsis.mcmc",)), drawing=5.0),
    Method("gwg", "GWG, a step a call", OTHERS, Chains("gwg", as_many_as_calls)),
    Method("glauber", "Glauber, 10,000 steps", OTHERS, Chains("glauber", as_the_plan_has_it)),
    Method("glauber-in-time", "Glauber, equal time", OTHERS,
           InTime(glauber, ("tcsis.mcmc.runner",)), 2_000),
    Method("wolff-in-time", "Wolff, equal time", OTHERS,
           InTime(clusters, ("tcsis.mcmc.runner",)), 100),
    Method("exact", "exact", OTHERS, Exactly()),
)  # fmt: skip
SEEDS = (0, 1, 2)
SMALL = tuple(Setting(4, beta, 24, 10_000, SEEDS) for beta in (0.28, 0.4407, 0.6))
LARGE = tuple(Setting(10, beta, 64, 2_500, SEEDS) for beta in (0.28, 0.4407, 0.6))
LARGEST = (Setting(16, 0.4407, 64, 1_000, SEEDS),)
FULL = Plan("full", (*SMALL, *LARGE, *LARGEST), METHODS, {4: 8.0, 10: 33.0, 16: 75.0})
QUICK = Plan("quick", tuple(Setting(4, beta, 24, 1_000, (0,)) for beta in (0.28, 0.4407)), METHODS)
