"""Draws whose verdict is known: perfect ones of every family, and every defect."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor

from tcsis import Draws, exact, mcmc
from tcsis.judging.reference import Reference
from tcsis.targets import (
    RBM,
    Ising,
    Pairwise,
    Potts,
    SherringtonKirkpatrick,
    SpinGlass,
    Target,
    from_callable,
)

CRITICAL = 0.4407
N = 10_000
NUM_SEEDS = 50
Made = tuple[Draws, Target]


@dataclass(frozen=True)
class Situation:
    """``expected`` is "trusted", "not trusted" or "undecidable"."""

    name: str
    expected: str
    make: Callable[[int], Made]


@cache
def reference(target: Target) -> Reference:
    """One for all seeds."""
    return Reference(target)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(1_000 + seed)


def bare(draws: Draws) -> Draws:
    """Without weights and fingerprint, as from a file of anybody's."""
    return Draws(draws.x)


# -- targets --------------------------------------------------------------------------------------


def rbm(d: int, hidden: int, scale: float) -> RBM:
    g = generator(0)
    return RBM(
        scale * torch.randn(d, hidden, generator=g), 0.1 * torch.randn(d, generator=g),
        0.1 * torch.randn(hidden, generator=g), dtype=torch.float64,
    )  # fmt: skip


def two_hot(x: Tensor) -> Tensor:
    return torch.where(x.sum(-1) == 2, 0.3 * x[..., 0].double(), -math.inf)


def three_spins(x: Tensor) -> Tensor:
    s = 2.0 * x.double() - 1
    return 0.5 * (s * s.roll(1, -1) * s.roll(2, -1)).sum(-1) + 0.2 * s.sum(-1)


CENTRES = torch.randint(2, (10, 30), generator=generator(1))
NEEDLE = torch.randint(2, (30,), generator=generator(2))
UP = 0.9


def ten_modes(x: Tensor) -> Tensor:
    return torch.logsumexp(-2.5 * (x[..., None, :] != CENTRES).sum(-1).double(), -1)


def with_needle(x: Tensor) -> Tensor:
    return torch.where((x == NEEDLE).all(-1), 30 * math.log(2) + math.log(9), 0.0).double()


SMALL: dict[str, Target] = {
    "Ising 4×4, β = 0.28": Ising(4, 0.28),
    "Ising 4×4, β = 0.4407": Ising(4, CRITICAL),
    "Ising 4×4, β = 0.6": Ising(4, 0.6),
    "Ising 4×4 in a field": Ising(4, CRITICAL, field=0.1),
    "Potts 3×3, V = 4": Potts(3, 4, 0.9),
    "glass 4×4, β = 1": SpinGlass(4, 1.0),
    "SK, 16 sites": SherringtonKirkpatrick(16, 1.0),
    "RBM, 14 units": rbm(14, 8, 0.7),
    "two of 14, a function": from_callable(two_hot, 14, 2),
    "three-spin couplings, a function": from_callable(three_spins, 14, 2),
    "one state, nearly": Pairwise.from_spins(torch.zeros(6, 6), 3.0, dtype=torch.float64),
}
MIDDLE: dict[str, Target] = {
    "Ising 10×10, β = 0.28": Ising(10, 0.28),
    "Ising 10×10, β = 0.4407": Ising(10, CRITICAL),
    "Ising 10×10, β = 0.6": Ising(10, 0.6),
    "Ising 8×8, antiferromagnet": Ising(8, -0.5),
    "glass 8×8, β = 1": SpinGlass(8, 1.0),
    "Potts 6×6, V = 3": Potts(6, 3, 1.0),
}
FIELDS = Pairwise.from_spins(torch.zeros(144, 144), torch.linspace(-1, 1, 144), dtype=torch.float64)
LARGE_ISING = Ising(16, 0.4)
LARGE_GLASS = SpinGlass(16, 0.5)
FIELD_GLASS = Pairwise(
    SpinGlass(16, 0.3).edges,
    SpinGlass(16, 0.3).couplings,
    0.3 * torch.randn(256, 2, generator=generator(5)),
)
LARGE_POTTS = Potts(12, 3, 0.9)
TRANSITION = Potts(16, 10, math.log(1 + math.sqrt(10)))
"""Of first order: ordered and disordered states, each of which sweeps leave once in hundreds."""
LARGE_RBM = rbm(60, 20, 0.25)
TWO_WELLS = Pairwise.from_spins(0.4 * (1 - torch.eye(12)), math.log(UP / (1 - UP)) / 24)

# -- draws that are right -------------------------------------------------------------------------


def drawn(target: Target, n: int = N) -> Callable[[int], Made]:
    return lambda seed: (bare(exact.draw(target, n, seed=seed)), target)


def weighted(target: Target, other: Target, n: int = N) -> Callable[[int], Made]:
    """Draws of another target with the weights that make them draws of this one."""
    return lambda seed: (exact.draw(other, n, seed=seed).reweighted(other, target), target)


def bank(
    target: Target, kernel: str, num_steps: int, n: int, seed: int, init: Tensor | None = None
) -> Tensor:
    """The last states of n chains, (n, d): perfect draws, where these are long enough."""
    return mcmc.sample(
        target, kernel, num_chains=n, num_steps=num_steps, burn_in=num_steps - 1, seed=seed,
        init=init, progress=False,
    ).x[:, 0]  # fmt: skip


def banked(target: Target, kernel: str, num_steps: int, n: int = 3_000) -> Callable[[int], Made]:
    return lambda seed: (Draws(bank(target, kernel, num_steps, n, seed)), target)


def at_transition(start: Callable[[int], Tensor], num_steps: int) -> Callable[[int], Made]:
    return lambda seed: (
        Draws(bank(TRANSITION, "gibbs", num_steps, 3_000, seed, start(seed))),
        TRANSITION,
    )


def disordered(seed: int, n: int = 3_000) -> Tensor:
    return torch.randint(10, (n, 256), generator=generator(seed))


def ordered(seed: int, n: int = 3_000) -> Tensor:
    """Equally many of every value."""
    return torch.arange(10).repeat(n // 10)[:, None].expand(n, 256)


def half_ordered(seed: int) -> Tensor:
    return torch.cat([ordered(seed, 1_500), disordered(seed, 1_500)])


def independent_fields(seed: int, weight: bool = True) -> Made:
    p = torch.sigmoid(2 * torch.linspace(-1, 1, 144, dtype=torch.float64))
    x = (torch.rand(N, 144, generator=generator(seed), dtype=torch.float64) < p).to(torch.uint8)
    log_z = float(torch.log(2 * torch.cosh(torch.linspace(-1, 1, 144, dtype=torch.float64))).sum())
    log_weight = torch.full((N,), log_z, dtype=torch.float64) if weight else None
    return Draws(x, log_weight), FIELDS


def annealed(seed: int) -> Made:
    """Weighted draws of a glass that has no exact answer whatever."""
    draws = mcmc.annealed_importance_sampling(
        FIELD_GLASS, num_chains=3_000, num_rungs=200, seed=seed
    )
    return draws, FIELD_GLASS


def chains(
    target: Target, kernel: str, num_chains: int, num_steps: int, burn_in: int, thin: int = 1
) -> Callable[[int], Made]:
    return lambda seed: (
        mcmc.sample(
            target, kernel, num_chains=num_chains, num_steps=num_steps, burn_in=burn_in, thin=thin,
            seed=seed, progress=False,
        ),
        target,
    )  # fmt: skip


def levels(seed: int) -> Made:
    """Draws of a few states that a model has twice or half as often: weights on three levels."""
    target = SMALL["Ising 4×4, β = 0.4407"]
    draws = exact.draw(target, 4 * N, seed=seed)
    level = draws.x[:, 0].long() + draws.x[:, 5].long()  # 0, 1, 2
    keep = torch.tensor([0.25, 0.5, 1.0], dtype=torch.float64)[level]
    chosen = torch.rand(len(keep), generator=generator(seed), dtype=torch.float64) < keep
    quarter, half, whole = level_shares(target)
    scale = quarter / 4 + half / 2 + whole
    kept = replace(draws, log_weight=draws.log_weight - (keep / scale).log())[chosen]
    return kept[slice(0, N)], target


@cache
def level_shares(target: Target) -> tuple[float, ...]:
    """P(x_0 + x_5 = k)."""
    table = exact.solve(target).enumeration
    assert table is not None
    x = torch.cartesian_prod(*[torch.arange(2)] * target.num_sites)  # the first site leads
    level = x[:, 0] + x[:, 5]
    return tuple(float(table.p[level == k].sum()) for k in range(3))


# -- draws that are wrong -------------------------------------------------------------------------


def at_other_temperature(make: Callable[[float], Target], factor: float) -> Callable[[int], Made]:
    right, wrong = make(1.0), make(factor)
    return lambda seed: (bare(exact.draw(wrong, N, seed=seed)), right)


def banked_elsewhere(
    target: Target, other: Target, kernel: str, num_steps: int, n: int = 3_000
) -> Callable[[int], Made]:
    return lambda seed: (Draws(bank(other, kernel, num_steps, n, seed)), target)


def one_mode(target: Target, share: float, weight: bool = False) -> Callable[[int], Made]:
    """Up in a share of the draws, where symmetry says half."""

    def make(seed: int) -> Made:
        draws = exact.draw(target, N, seed=seed)
        up = torch.rand(N, 1, generator=generator(seed)) < share
        leads = draws.x.double().mean(-1, keepdim=True) > 0.5
        x = torch.where(up == leads, draws.x, 1 - draws.x)
        return (replace(draws, x=x) if weight else Draws(x)), target

    return make


def without_value(target: Potts) -> Callable[[int], Made]:
    def make(seed: int) -> Made:
        x = exact.draw(target, 2 * N, seed=seed).x
        counts = torch.stack([(x == v).sum(-1) for v in range(target.num_values)], -1)
        return Draws(x[counts.argmax(-1) != 2][:N]), target

    return make


def wells(share: float, weight: bool) -> Callable[[int], Made]:
    """Two wells of 0.9 and 0.1, of which the first has a share of the draws."""

    def make(seed: int) -> Made:
        x = exact.draw(TWO_WELLS, 100_000, seed=seed).x
        upper = x.double().mean(-1) > 0.5
        n, p = 3_000, float(upper_share())
        kept = torch.cat([x[upper][: round(share * n)], x[~upper][: round((1 - share) * n)]])
        if not weight:
            return Draws(kept), TWO_WELLS
        log_z = exact.solve(TWO_WELLS).log_z
        ratio = torch.tensor([(1 - p) / (1 - share), p / share]).double().log() + log_z
        return Draws(kept, ratio[(kept.double().mean(-1) > 0.5).long()]), TWO_WELLS

    return make


@cache
def upper_share() -> float:
    """P(more than half of the sites are up)."""
    m = exact.solve(TWO_WELLS).magnetisation
    assert m is not None
    return float(m.probabilities[m.values > 0].sum())


def large_wells(share: float) -> Callable[[int], Made]:
    """Two wells in 200 sites without exact answers, one of them missing or in a wrong share."""
    target = large_well_target()

    def make(seed: int) -> Made:
        g = generator(seed)
        up = torch.rand(3_000, 1, generator=g) < share
        x = bank(target, "swendsen-wang", 60, 3_000, seed)
        leads = x.double().mean(-1, keepdim=True) > 0.5
        return Draws(torch.where(up == leads, x, 1 - x)), target

    return make


@cache
def large_well_target() -> Ising:
    return Ising(16, 0.6)


TILTED = Ising(16, 0.6, field=0.002)
"""Two far modes of about 0.73 and 0.27, too large for exact answers."""


def tilted(up_only: bool, weight: bool = False) -> Callable[[int], Made]:
    """Draws without the field that are turned up or down as the field makes them: what the field
    does inside of a mode is far below what so many draws could show."""

    def make(seed: int) -> Made:
        x = bank(large_well_target(), "swendsen-wang", 60, 3_000, seed)
        m = (2.0 * x.double() - 1).sum(-1, keepdim=True)
        chance = torch.sigmoid(2 * tilt() * m.abs())
        up = torch.rand(m.shape, generator=generator(seed), dtype=torch.float64) < chance
        x = torch.where((up | up_only) == (m > 0), x, 1 - x)
        kaufman = exact.solve(
            large_well_target()
        ).log_z  # of both modes without field, a half of each
        log_weight = torch.full((len(x),), kaufman - math.log(2), dtype=torch.float64)
        log_weight += tilt() * m.abs().squeeze(-1)
        return (Draws(x, log_weight) if weight else Draws(x)), TILTED

    return make


@cache
def tilt() -> float:
    """log p̄ that one spin gains in the field."""
    x = torch.ones(1, 256, dtype=torch.long)
    gain = TILTED.log_density(x).double() - TILTED.log_density(1 - x).double()
    return float(gain) / 512


def stuck_neel(seed: int) -> Made:
    target = Ising(16, -0.7)
    return mcmc.sample(target, "gibbs", num_chains=7, num_steps=600, burn_in=200, seed=seed,
                       progress=False), target  # fmt: skip


def in_few_modes(shuffled: bool) -> Callable[[int], Made]:
    target = from_callable(ten_modes, 30, 2)

    def make(seed: int) -> Made:
        draws = mcmc.sample(target, "gibbs", num_chains=4, num_steps=400, seed=seed,
                            init=CENTRES[:4], progress=False)  # fmt: skip
        order = torch.randperm(1_600, generator=generator(seed))
        return (bare(draws.flat[order]) if shuffled else draws), target

    return make


def one_start(target: Target, num_steps: int) -> Callable[[int], Made]:
    def make(seed: int) -> Made:
        first = torch.randint(2, (1, target.num_sites), generator=generator(seed))
        init = first.expand(20, -1)
        draws = mcmc.sample(target, "gibbs", num_chains=20, num_steps=num_steps,
                            burn_in=num_steps // 5, init=init, seed=seed,
                            progress=False)  # fmt: skip
        return draws, target

    return make


def leaking(share: float, weight: bool) -> Callable[[int], Made]:
    """Draws of share·uniform + (1 - share)·p, with the weights that correct them or without."""
    target = SMALL["Ising 4×4, β = 0.6"]

    def make(seed: int) -> Made:
        g = generator(seed)
        noise = torch.randint(2, (N, 16), generator=g).to(torch.uint8)
        leaks = torch.rand(N, 1, generator=g) < share
        x = torch.where(leaks, noise, exact.draw(target, N, seed=seed).x)
        if not weight:
            return Draws(x), target
        log_density = target.log_density(x).double()
        log_p = log_density - exact.solve(target).log_z
        flat = torch.full((N,), math.log(share) - 16 * math.log(2)).double()
        return Draws(x, log_density - torch.logaddexp(flat, math.log1p(-share) + log_p)), target

    return make


def with_weights(make_weight: Callable[[torch.Generator], Tensor]) -> Callable[[int], Made]:
    target = SMALL["Ising 4×4, β = 0.4407"]

    def make(seed: int) -> Made:
        draws = exact.draw(target, N, seed=seed)
        return replace(draws, log_weight=draws.log_weight + make_weight(generator(seed))), target

    return make


def noisy(make: Callable[[Tensor], Tensor]) -> Callable[[int], Made]:
    """A density that is no function of the state; the probe of from_callable refuses it."""
    return lambda seed: (
        Draws(torch.randint(2, (2_000, 12), generator=generator(seed)).to(torch.uint8)),
        from_callable(make, 12, 2),
    )


def dropout() -> Callable[[int], Made]:
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(12, 32), torch.nn.Dropout(0.3), torch.nn.ReLU(), torch.nn.Linear(32, 1)
    )
    return noisy(lambda x: net(x.float())[:, 0])


def of_other_glass(seed: int) -> Made:
    other = SpinGlass(16, 0.5, seed=1)
    return Draws(bank(other, "gibbs", 300, 3_000, seed)), LARGE_GLASS


def forbidden(share: float) -> Callable[[int], Made]:
    target = SMALL["two of 14, a function"]

    def make(seed: int) -> Made:
        x = exact.draw(target, N, seed=seed).x
        bad = torch.rand(N, generator=generator(seed)) < share
        x[bad] = 1
        return Draws(x), target

    return make


def on_needle(weight: bool) -> Callable[[int], Made]:
    target = from_callable(with_needle, 30, 2)

    def make(seed: int) -> Made:
        x = torch.randint(2, (5_000, 30), generator=generator(seed)).to(torch.uint8)
        flat = torch.full((5_000,), 30 * math.log(2), dtype=torch.float64)
        return Draws(x, flat if weight else None), target

    return make


def large_function(seed: int) -> Made:
    """Perfect draws of a black box."""
    target = from_callable(lambda x: 0.6 * (x * torch.linspace(-1, 1, 100)).sum(-1), 100, 2)
    p = torch.sigmoid(0.6 * torch.linspace(-1, 1, 100))
    return Draws((torch.rand(N, 100, generator=generator(seed)) < p).to(torch.uint8)), target


# -- all of them ----------------------------------------------------------------------------------


def ising10(factor: float) -> Target:
    return Ising(10, CRITICAL * factor)


def glass8(factor: float) -> Target:
    return SpinGlass(8, factor)


PERCENT = {1.02: "2 %", 1.05: "5 %", 1.1: "10 %"}
RIGHT = [
    *[Situation(f"perfect: {name}", "trusted", drawn(t)) for name, t in (SMALL | MIDDLE).items()],
    Situation("perfect, with weights: 144 independent sites", "trusted", independent_fields),
    Situation(
        "perfect: 144 independent sites",
        "trusted",
        lambda seed: independent_fields(seed, weight=False),
    ),
    Situation(
        "perfect, too large: Ising 16×16", "trusted", banked(LARGE_ISING, "swendsen-wang", 60)
    ),
    Situation("perfect, too large: glass 16×16", "trusted", banked(LARGE_GLASS, "gibbs", 300)),
    Situation(
        "perfect, too large: Potts 12×12", "trusted", banked(LARGE_POTTS, "swendsen-wang", 60)
    ),
    Situation(
        "perfect, too large: glass 16×16 in random fields",
        "trusted",
        banked(FIELD_GLASS, "gibbs", 200),
    ),
    Situation("annealed importance sampling, too large", "trusted", annealed),
    Situation("perfect, too large: two modes of 0.73 and 0.27", "trusted", tilted(False)),
    Situation(
        "perfect, too large: Potts 16×16, V = 10, at its transition",
        "trusted",
        at_transition(half_ordered, 2_000),
    ),
    Situation(
        "perfect, too large: RBM, 60 units", "trusted", banked(LARGE_RBM, "gibbs", 100, 2_000)
    ),
    Situation(
        "weights repair 5 % of temperature",
        "trusted",
        weighted(Ising(10, CRITICAL), Ising(10, CRITICAL * 0.95)),
    ),
    Situation(
        "weights repair 1 % of temperature",
        "trusted",
        weighted(Ising(10, CRITICAL), Ising(10, CRITICAL * 0.99)),
    ),
    Situation("weights on three levels", "trusted", levels),
    Situation("weights repair a leak of 2 %", "trusted", leaking(0.02, True)),
    Situation("weights repair two wells", "trusted", wells(0.59, True)),
    Situation(
        "weights of noise 0.02",
        "trusted",
        with_weights(lambda g: 0.02 * torch.randn(N, generator=g).double()),
    ),
    Situation(
        "20 chains of 2,000, warm", "trusted", chains(Ising(4, 0.2), "gibbs", 20, 2_000, 100)
    ),
    Situation(
        "one chain of 40,000, warm", "trusted", chains(Ising(4, 0.2), "gibbs", 1, 40_000, 100)
    ),
    Situation(
        "50 chains of 500, Swendsen–Wang, too large",
        "trusted",
        chains(Potts(12, 3, 0.7), "swendsen-wang", 50, 600, 100),
    ),
    Situation(
        "8 chains of 1,000, glass 15×15, β = 0.2",
        "trusted",
        chains(SpinGlass(15, 0.2), "gibbs", 8, 1_100, 100),
    ),
]
WRONG = [
    *[
        Situation(
            f"temperature off by {p}: Ising 10×10", "not trusted", at_other_temperature(ising10, f)
        )
        for f, p in PERCENT.items()
    ],
    *[
        Situation(
            f"temperature off by {p}: glass 8×8", "not trusted", at_other_temperature(glass8, f)
        )
        for f, p in PERCENT.items()
    ],
    *[
        Situation(
            f"temperature off by {p}: glass 16×16, too large",
            "not trusted",
            banked_elsewhere(LARGE_GLASS, SpinGlass(16, 0.5 * f), "gibbs", 300),
        )
        for f, p in PERCENT.items()
    ],
    *[
        Situation(
            f"temperature off by {p}: Potts 12×12, too large",
            "not trusted",
            banked_elsewhere(LARGE_POTTS, Potts(12, 3, 0.9 * f), "swendsen-wang", 60),
        )
        for f, p in PERCENT.items()
    ],
    Situation(
        "missing mode: Ising 10×10, β = 0.6",
        "not trusted",
        one_mode(MIDDLE["Ising 10×10, β = 0.6"], 1.0),
    ),
    Situation(
        "missing mode, with weights: Ising 10×10, β = 0.6",
        "not trusted",
        one_mode(MIDDLE["Ising 10×10, β = 0.6"], 1.0, weight=True),
    ),
    Situation("missing mode: Potts 6×6", "not trusted", without_value(Potts(6, 3, 1.2))),
    Situation("missing mode: Ising 16×16, β = 0.6, too large", "not trusted", large_wells(1.0)),
    Situation(
        "missing mode: 0.27 of Ising 16×16 in a field, too large", "not trusted", tilted(True)
    ),
    Situation(
        "missing mode, with weights: 0.27 of Ising 16×16 in a field, too large",
        "not trusted",
        tilted(True, weight=True),
    ),
    Situation("missing mode: two wells, the small one", "not trusted", wells(1.0, False)),
    Situation(
        "share 0.6 of two equal modes: Ising 10×10, β = 0.6",
        "not trusted",
        one_mode(MIDDLE["Ising 10×10, β = 0.6"], 0.6),
    ),
    Situation("share 0.59 of 0.9: two wells", "not trusted", wells(0.59, False)),
    Situation(
        "share 0.6 of two equal modes: Ising 16×16, β = 0.6, too large",
        "not trusted",
        large_wells(0.6),
    ),
    Situation(
        "one phase: disordered, Potts 16×16, V = 10, at its transition",
        "not trusted",
        at_transition(disordered, 30),
    ),
    Situation(
        "one phase: ordered, Potts 16×16, V = 10, at its transition",
        "not trusted",
        at_transition(ordered, 30),
    ),
    Situation("stuck in Néel states", "not trusted", stuck_neel),
    Situation("stuck in 4 of 10 modes", "not trusted", in_few_modes(False)),
    Situation("stuck in 4 of 10 modes, in any order", "not trusted", in_few_modes(True)),
    Situation(
        "stuck: Ising 10×10, β = 1", "not trusted", chains(Ising(10, 1.0), "gibbs", 20, 400, 100)
    ),
    Situation("one start: glass 16×16, β = 1.5", "not trusted", one_start(SpinGlass(16, 1.5), 500)),
    Situation("one start: Ising 16×16, β = 0.6", "not trusted", one_start(Ising(16, 0.6), 300)),
    Situation("too few: 20 draws", "not trusted", drawn(SMALL["Ising 4×4, β = 0.4407"], 20)),
    Situation("too few: 300 draws", "not trusted", drawn(MIDDLE["Ising 10×10, β = 0.4407"], 300)),
    Situation("one draw", "not trusted", drawn(SMALL["Ising 4×4, β = 0.4407"], 1)),
    Situation(
        "500 chains of three draws", "not trusted", chains(Ising(4, 0.3), "gibbs", 500, 103, 100)
    ),
    Situation("density with dropout", "not trusted", dropout()),
    Situation(
        "density with noise of 0.5",
        "not trusted",
        noisy(lambda x: 0.1 * x.sum(-1) + 0.5 * torch.randn(len(x))),
    ),
    Situation(
        "density with the mean of its batch",
        "not trusted",
        noisy(lambda x: 0.1 * x.sum(-1) - 0.1 * x.float().sum(-1).mean()),
    ),
    Situation("draws of another glass, too large", "not trusted", of_other_glass),
    Situation("leak of 5 % without weights", "not trusted", leaking(0.05, False)),
    Situation(
        "weights of a heavy tail, k = 1.5",
        "not trusted",
        with_weights(lambda g: -1.5 * torch.rand(N, generator=g).double().log()),
    ),
    Situation(
        "weights of noise 3",
        "not trusted",
        with_weights(lambda g: 3 * torch.randn(N, generator=g).double()),
    ),
    Situation(
        "weights that are off by 0.1 in log Z",
        "not trusted",
        with_weights(
            lambda g: (
                torch.full((N,), 0.1).double() + 0.3 * torch.randn(N, generator=g).double() - 0.045
            )
        ),
    ),
    Situation("1 % of the draws forbidden", "not trusted", forbidden(0.01)),
    Situation("all but a few draws forbidden", "not trusted", forbidden(0.999)),
]
OPEN = [
    Situation(
        "needle with 90 % of the probability in 2^30 states", "undecidable", on_needle(False)
    ),
    Situation("needle, with weights", "undecidable", on_needle(True)),
    Situation("perfect draws of a black box of 2^100 states", "undecidable", large_function),
    Situation(
        "temperature off by 2 %: Ising 4×4, β = 0.28, 10,000 draws",
        "undecidable",
        at_other_temperature(lambda f: Ising(4, 0.28 * f), 1.02),
    ),
]
SITUATIONS = [*RIGHT, *WRONG, *OPEN]
