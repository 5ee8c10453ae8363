"""Exact answers wherever exact answers exist.

| method          | targets                                    | gives                            |
|-----------------|--------------------------------------------|----------------------------------|
| enumeration     | any, V^d up to 2^22 for d free sites       | everything                       |
| transfer matrix | 2-D lattice pairwise, V^width up to 2^14   | all but scores of noised states  |
| elimination     | factors and pairs on graphs of small width | all but G(r) and magnetisation   |
| Kaufman         | periodic 2-D Ising without field, any size | log Z, energy, G(r)              |
| Kac–Ward        | planar spins without field, any size       | log Z, energy, bonds, draws      |
|                 | the same on a periodic 2-D lattice         | log Z, energy, bonds             |
| coupling        | ferromagnets without field, any V and size | draws                            |
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from tcsis.basics.checks import check_integer, make_generator
from tcsis.basics.memory import check_fits
from tcsis.draws import Draws
from tcsis.exact import elimination, kac_ward, kaufman, perfect, planar_draws, torus, transfer
from tcsis.exact.correlation import lattice_correlation
from tcsis.exact.elimination import MAX_BYTES, Elimination
from tcsis.exact.enumeration import MAX_STATES, Enumeration
from tcsis.exact.enumeration import applies as enumerable
from tcsis.exact.kac_ward import TooColdError
from tcsis.noise import Time, UniformNoise
from tcsis.targets.base import Target
from tcsis.targets.physics import Ising

__all__ = [
    "Distribution",
    "Elimination",
    "Enumeration",
    "Exact",
    "ExactSampler",
    "TooColdError",
    "affordable",
    "coupled",
    "denoiser",
    "draw",
    "drawable",
    "most_probable",
    "quickly_drawable",
    "sampler",
    "score",
    "solvable",
    "solve",
]

QUICK_ROW = 2**10
MOST_SPINS, MOST_DRAWN_SPINS, MOST_COUPLED_SPINS = 2**14, 2**12, 2**10
"""Of a model in the plane that is solved, or drawn from, without being asked for; and of a
ferromagnet that is drawn from, or whose G(r) is worked out."""


@dataclass(frozen=True)
class Distribution:
    """A distribution on numbers: ``values`` (k,) and their ``probabilities`` (k,)."""

    values: Tensor
    probabilities: Tensor

    def moment(self, k: int) -> float:
        """E[value^k]."""
        return float(self.probabilities @ self.values**k)


@dataclass(frozen=True)
class Exact:
    """The exact answers for one target; what the ``method`` cannot give is None.

    ``mean_energy`` is E[-log p̄]; ``site_marginals`` (d, v); ``correlation`` is G(r) for
    r = 0..max_distance of the lattice (see ``tcsis.exact.correlation``); ``pair_same`` (m,) is
    P(x_i = x_j) for the target's ``pairs``.
    """

    target: Target = field(repr=False)
    method: str
    log_z: float
    mean_energy: float
    site_marginals: Tensor | None = None
    correlation: Tensor | None = None
    enumeration: Enumeration | None = field(default=None, repr=False)
    pair_same: Tensor | None = field(default=None, repr=False)

    @cached_property
    def magnetisation(self) -> Distribution | None:
        """The distribution of Σ_i s_i/d for V = 2; computed when first asked for."""
        if self.target.num_values != 2:
            return None
        if self.enumeration is not None:
            probabilities = self.enumeration.magnetisation
        elif self.method == "transfer matrix":
            probabilities = transfer.magnetisation(self.target)
        else:
            return None
        return Distribution(
            torch.linspace(-1, 1, self.target.num_sites + 1, dtype=torch.float64), probabilities
        )


def drawable(target: Target) -> bool:
    """Whether ``draw`` works for the target."""
    return (
        enumerable(target)
        or transfer.applies(target)
        or elimination.applies(target)
        or kac_ward.applies(target)
        or perfect.applies(target)
    )


def solvable(target: Target) -> bool:
    """Whether ``solve`` works for the target."""
    return (
        enumerable(target)
        or transfer.applies(target)
        or elimination.applies(target)
        or kac_ward.applies(target)
        or kaufman.applies(target)
        or torus.read(target) is not None
    )


def affordable(target: Target) -> bool:
    """Whether ``solve`` may be called without being asked for: elimination can take minutes, and is
    then left to those who want it."""
    if quickly_summed(target) or kaufman.applies(target):
        return True
    small = target.num_sites <= MOST_SPINS
    return small and (kac_ward.applies(target) or torus.read(target) is not None)


def quickly_drawable(target: Target) -> bool:
    """Whether ``draw`` may be called without being asked for."""
    if quickly_summed(target):
        return True
    if target.num_sites <= MOST_DRAWN_SPINS and kac_ward.applies(target):
        return True
    # chains of more than two values may take forever to meet
    spins = target.num_values == 2 and target.num_sites <= MOST_COUPLED_SPINS
    return spins and coupled(target)


def quickly_summed(target: Target) -> bool:
    return enumerable(target) or transfer.applies(target) or elimination.quick(target)


def coupled(target: Target) -> bool:
    """Whether ``draw`` goes by coupling from the past."""
    otherwise = quickly_summed(target) or kac_ward.applies(target)
    return not otherwise and perfect.applies(target)


def quick(target: Target) -> bool:
    """Whether ``solve`` takes a second or so: by enumeration, or with rows of at most
    ``QUICK_ROW`` states."""
    if enumerable(target) or not transfer.applies(target):
        return enumerable(target)
    assert target.lattice is not None
    return target.num_values ** min(target.lattice.shape) <= QUICK_ROW


@lru_cache(maxsize=4)  # judging draws and drawing pictures of them ask again and again
def solve(target: Target, *, max_bytes: int = MAX_BYTES) -> Exact:
    """Exact log Z, mean energy, site marginals, G(r) and magnetisation, as far as they are known.

    Raises a ``ValueError`` for a target that is too large for every exact method; elimination may
    use ``max_bytes`` of memory.
    """
    if enumerable(target):
        return by_enumeration(target)
    if transfer.applies(target):
        result = transfer.solve(target)
        return Exact(
            target, "transfer matrix", result.log_z, result.mean_energy,
            result.site_marginals, result.correlation,
        )  # fmt: skip
    if elimination.quick(target, max_bytes):
        return by_elimination(target, max_bytes)
    if kaufman.applies(target):
        assert isinstance(target, Ising) and target.lattice is not None
        shape = target.lattice.shape
        return Exact(
            target, "kaufman",
            kaufman.log_z(shape, target.beta), kaufman.mean_energy(shape, target.beta),
            site_marginals=kac_ward.site_marginals(target.num_sites),
            correlation=torus_correlation(target),
        )  # fmt: skip
    if (found := without_field(target, max_bytes)) is not None:
        return Exact(
            target, "kac-ward", found.log_z, found.mean_energy,
            site_marginals=kac_ward.site_marginals(target.num_sites),
            pair_same=torch.from_numpy(1 + found.correlations) / 2,
        )  # fmt: skip
    if elimination.applies(target, max_bytes):
        return by_elimination(target, max_bytes)
    raise ValueError(
        f"{too_large(target, max_bytes)}; use tcsis.mcmc for estimates of log Z and energy"
    )


def torus_correlation(target: Ising) -> Tensor | None:
    """G(r) of a periodic lattice; None where it is too large to ask for, or narrow."""
    if target.num_sites > MOST_COUPLED_SPINS or torus.read(target) is None:
        return None
    return torus.correlation(target)


def without_field(target: Target, max_bytes: int) -> kac_ward.KacWardResult | None:
    """The answers for spins without field in the plane or on a torus; None for other targets, and
    for those that are too cold where elimination has them."""
    try:
        if (planar := kac_ward.read(target)) is not None:
            return kac_ward.solve(planar)
        if (periodic := torus.read(target)) is not None:
            return torus.solve_torus(periodic)
    except TooColdError:
        if not elimination.applies(target, max_bytes):
            raise
    return None


def draw_in_plane(
    target: Target, n: int, generator: torch.Generator, max_bytes: int
) -> tuple[Tensor, float] | None:
    """Draws (n, d) of spins without field in the plane, and log Z; None for other targets, and for
    those that are too cold where elimination has them."""
    if (planar := kac_ward.read(target)) is None:
        return None
    try:
        log_z = kac_ward.solve(planar).log_z
        return planar_draws.draw(planar, log_z, n, generator), log_z
    except TooColdError:
        if not elimination.applies(target, max_bytes):
            raise
    return None


def by_elimination(target: Target, max_bytes: int) -> Exact:
    answers = Elimination(target, max_bytes=max_bytes).answers()
    return Exact(
        target, "elimination", answers.log_z, answers.mean_energy, answers.site_marginals,
        pair_same=answers.pair_same,
    )  # fmt: skip


def by_enumeration(target: Target) -> Exact:
    table = Enumeration(target)
    marginals, g, same = table.site_marginals, None, None
    if target.lattice is not None:
        g = lattice_correlation(table.pair_same, marginals, target.lattice)
    if target.pairs is not None:
        same = table.pair_same(*target.pairs.cpu().T)
    return Exact(target, "enumeration", table.log_z, table.mean_energy, marginals, g, table, same)


def draw(target: Target, n: int, seed: int = 0, *, max_bytes: int = MAX_BYTES) -> Draws:
    """Independent exact draws, x (n, d) uint8, each with log_weight = log Z where that is known;
    elimination may use ``max_bytes`` of memory."""
    n = check_integer("n", n)
    check_fits("n", n, target.num_sites, f" of {target.num_sites} sites")
    generator = make_generator(seed, "exact draws")
    start = time.perf_counter()
    log_z: float | None
    if enumerable(target):
        table = Enumeration(target)
        x, log_z = table.draw(n, generator), table.log_z
    elif transfer.applies(target):
        x, log_z = transfer.draw(target, n, generator), transfer.log_z(target)
    elif not elimination.quick(target, max_bytes) and (
        found := draw_in_plane(target, n, generator, max_bytes)
    ):
        x, log_z = found
    elif coupled(target) and (ferromagnet := perfect.read(target)) is not None:
        x = perfect.draw(ferromagnet, n, generator)
        log_z = solve(target).log_z if affordable(target) else None
    elif elimination.applies(target, max_bytes):
        cliques = Elimination(target, max_bytes=max_bytes)
        x, log_z = cliques.draw(n, generator), cliques.log_z
    else:
        raise ValueError(f"{too_large(target, max_bytes)}; use tcsis.mcmc.sample for draws")
    weight = None if log_z is None else torch.full((n,), log_z, dtype=torch.float64)
    return Draws(x, weight, seconds=time.perf_counter() - start).signed(target)


def most_probable(target: Target, *, max_bytes: int = MAX_BYTES) -> tuple[Tensor, float]:
    """A state that no other is more probable than, (d,), and its log density: by elimination, or
    by enumeration where the target is no product of tables."""
    if elimination.applies(target, max_bytes):
        return Elimination(target, max_bytes=max_bytes).most_probable()
    if enumerable(target):
        table = Enumeration(target)
        best = table.log_density.argmax()
        return table.states(best), float(table.log_density[best])
    raise ValueError(f"{too_large(target, max_bytes)}; use tcsis.mcmc for states of low energy")


@dataclass(frozen=True)
class ExactSampler:
    """``draw`` as a sampler."""

    target: Target

    def sample(self, n: int, *, seed: int = 0) -> Draws:
        """Independent exact draws, x (n, d) uint8, as ``draw`` gives them."""
        return draw(self.target, n, seed)


def sampler(target: Target) -> ExactSampler:
    """A sampler of independent exact draws, for a target that has them."""
    if not drawable(target):
        raise ValueError(f"{too_large(target)}; use tcsis.mcmc.sample for draws")
    return ExactSampler(target)


def score(target: Target, noise: UniformNoise, x_t: Tensor, t: Time) -> Tensor:
    """log p_t(x_t with site i set to v)/p_t(x_t) by enumeration, (..., d) -> (..., d, v).

    To ask more than once, keep ``Enumeration(target)`` and call its ``log_score``.
    """
    return enumerate_states(target).log_score(noise, x_t, t)


def denoiser(target: Target, noise: UniformNoise, x_t: Tensor, t: Time) -> Tensor:
    """log P(x_0^i = v | x_t) by enumeration, (..., d) -> (..., d, v).

    To ask more than once, keep ``Enumeration(target)`` and call its ``denoiser``.
    """
    return enumerate_states(target).denoiser(noise, x_t, t)


def enumerate_states(target: Target) -> Enumeration:
    if not enumerable(target):
        raise ValueError(
            f"{too_large(target)}; the noised distribution is known exactly by enumeration only, "
            "estimate it with tcsis.identity"
        )
    return Enumeration(target)


def too_large(target: Target, max_bytes: int = MAX_BYTES) -> str:
    num_states = f"{target.num_values}^{len(target.free_sites)}"
    return (
        f"{target} with {num_states} states is too large: exact answers need V^d <= {MAX_STATES} "
        f"states, a 2-D lattice with V^width <= {transfer.MAX_ROW_STATES} (width 14 for V = 2), "
        "a product of tables that can be summed out site by site "
        f"({elimination.obstacle(target, max_bytes)}), a planar graph of spins without field or "
        "evidence, for log Z and energy alone, spins without field or evidence on a periodic "
        "2-D lattice, or, for draws alone, a ferromagnet without field or evidence"
    )
