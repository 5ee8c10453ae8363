"""What every sampler is, and the one type of what it gives: states, their weights, their cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from tcsis.basics.checks import check_integer, make_generator
from tcsis.targets.base import Target

if TYPE_CHECKING:
    import dimod
    import pandas
    import xarray

NUM_WITNESSES = 8


@dataclass(frozen=True)
class Fingerprint:
    """log p̄ of a few drawn states ``x`` (k, d), by which their target is known again."""

    x: Tensor
    log_density: Tensor

    def contradiction(self, target: Target, *, up_to_constant: bool) -> str | None:
        """Why draws with this fingerprint cannot be of the target, if they cannot.  Draws without
        weights are the same for log p̄ + c."""
        if self.x.shape[-1] != target.num_sites or int(self.x.max()) >= target.num_values:
            return f"were made for another target, of {self.x.shape[-1]} sites"
        then, now = self.log_density, target.log_density(self.x.to(target.device)).double().cpu()
        gap = torch.where(then == now, 0.0, now - then)  # both may be -inf
        shift = gap.median() if up_to_constant else 0.0
        tolerance = target.rounding * (1 + then.abs().maximum(now.abs()))
        wrong = ~((gap - shift).abs() <= 2 * tolerance)
        if not bool(wrong.any()):
            return None
        row = int(wrong.nonzero()[0])
        return (
            f"were made for another target: log p̄ of one of them was {float(then[row]):.6g} when "
            f"it was drawn and is {float(now[row]):.6g} here"
        )


@dataclass(frozen=True)
class Draws:
    """States drawn from a target.

    ``x`` is uint8 (n, d) for independent draws and (chain, draw, d) for chains.  ``log_weight``
    has the shape of ``x`` without its last axis; where a sampler gives it, E[exp(log_weight)] = Z.
    ``seconds``, ``num_density_calls`` and ``num_network_calls`` are totals for all the draws, in
    wall time, evaluations of log p̄ on one state, and evaluations of the network on one state.
    ``acceptance`` is the share of proposed moves that a chain accepted, where that has a meaning.
    ``fingerprint`` says which target they are of, so that no other is judged by them; ``worth`` is
    how many independent draws they are worth, where that is known to be fewer.
    """

    x: Tensor
    log_weight: Tensor | None = None
    seconds: float = 0.0
    num_density_calls: float = 0.0
    num_network_calls: float = 0.0
    acceptance: float | None = None
    fingerprint: Fingerprint | None = None
    worth: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.x, Tensor) or self.x.ndim < 2 or not len(self.x):
            came = f"shape {tuple(self.x.shape)}" if isinstance(self.x, Tensor) else "no shape"
            raise ValueError(f"x has {came}: expected a tensor (n, d) or more axes, n at least 1")
        if self.log_weight is not None and self.log_weight.shape != self.x.shape[:-1]:
            raise ValueError(
                f"log_weight has shape {tuple(self.log_weight.shape)}: "
                f"expected {tuple(self.x.shape[:-1])}, one for each state"
            )

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: slice | Tensor) -> Draws:
        """Some of the draws (or chains), with the cost of all of them."""
        weight = None if self.log_weight is None else self.log_weight[index]
        return replace(self, x=self.x[index], log_weight=weight)

    @property
    def flat(self) -> Draws:
        """The same draws with chains laid end to end, ``x`` (n, d)."""
        weight = None if self.log_weight is None else self.log_weight.flatten()
        return replace(self, x=self.x.flatten(0, -2), log_weight=weight)

    def completed(self, target: Target) -> Self:
        """Draws of ``target.free`` as draws of the target, what is known in place, signed."""
        return replace(self, x=target.complete(self.x)).signed(target)

    def signed(self, target: Target) -> Self:
        """The same draws with the fingerprint of the target that they are of; these few densities
        are no part of what the draws cost."""
        flat = self.x.flatten(0, -2)
        rows = torch.linspace(0, len(flat) - 1, min(NUM_WITNESSES, len(flat))).long()
        x = flat[rows].cpu()
        log_density = target._log_density(target.check(x.to(target.device))).double().cpu()
        return replace(self, fingerprint=Fingerprint(x.to(torch.uint8), log_density))

    def reweighted(self, before: Target, after: Target) -> Draws:
        """Draws of the target ``before`` as weighted draws of the target ``after``:
        log w + log p̄_after(x) - log p̄_before(x), where log w is 0 for draws without weights, whose
        mean weight is then Z_after/Z_before."""
        x = self.x.to(after.device)
        ratio = (after.log_density(x).double() - before.log_density(x).double()).cpu()
        log_weight = ratio if self.log_weight is None else self.log_weight.double().cpu() + ratio
        return replace(self, log_weight=log_weight).signed(after)

    @property
    def weights(self) -> Tensor | None:
        """Importance weights normalised to sum to one over all draws, (n,) float64."""
        if self.log_weight is None:
            return None
        return self.log_weight.double().flatten().softmax(0)

    @property
    def ess(self) -> float | None:
        """Effective share of the draws, 1/(n·Σ w²) in (0, 1]; None without weights."""
        return None if self.log_weight is None else effective_share(self.log_weight.flatten())

    @property
    def log_z(self) -> float | None:
        """log of the mean weight; None without weights."""
        if self.log_weight is None:
            return None
        log_weight = self.log_weight.double().flatten()
        return float(log_weight.logsumexp(0)) - math.log(len(log_weight))

    @property
    def log_z_error(self) -> float | None:
        """Standard error of ``log_z``, √((1/ess - 1)/n), by the delta method; infinite for a
        single draw, which says nothing of it."""
        if self.ess is None or self.weights is None:
            return None
        if len(self.weights) == 1:
            return math.inf
        excess = 1 / self.ess - 1  # by rounding a hair below zero where all weights are equal
        return math.nan if math.isnan(excess) else math.sqrt(max(0.0, excess) / len(self.weights))

    @property
    def elbo(self) -> float | None:
        """E[log w], a lower bound of log Z in expectation; None without weights."""
        return None if self.log_weight is None else float(self.log_weight.double().mean())

    def resample(
        self, n: int | None = None, *, seed: int = 0, generator: torch.Generator | None = None
    ) -> Draws:
        """n draws without weights, (n, d), as many as there are by default, for whatever takes no
        weights: in random order, draw i n·w_i times, rounded up or down by chance.

        A draw of weight zero is never taken.  Where the ``ess`` is low the same few states come
        many times: the n are worth no more independent draws than these, so ask for the ``ess`` and
        a verdict before.
        """
        flat = self.flat
        if flat.log_weight is None:
            raise ValueError("draws carry no log_weight: expected weighted draws to choose from")
        largest = float(flat.log_weight.max())
        if not math.isfinite(largest):
            raise ValueError(
                f"the largest log_weight is {largest}: expected a finite one, for a draw of weight "
                "zero cannot be taken"
            )
        n = len(flat) if n is None else check_integer("n", n)
        generator = generator or make_generator(seed, "resampling", flat.log_weight.device)
        index = systematic_resample(flat.log_weight, generator, n)
        order = torch.randperm(n, device=index.device, generator=generator)
        x = flat.x[index[order].to(flat.x.device)]
        worth = effective_share(flat.log_weight) * len(flat)
        return replace(flat, x=x, log_weight=None, worth=min(worth, n))

    def _repr_html_(self) -> str:
        """A small table, for notebooks."""
        log_z = "" if self.log_z is None else f"{self.log_z:.4f} ± {self.log_z_error:.1g}"
        shown = {
            "draws": " × ".join(f"{size:,}" for size in self.x.shape[:-1]),
            "sites": f"{self.x.shape[-1]:,}",
            "ESS": "" if self.ess is None else f"{self.ess:.3f}",
            "log Z": log_z,
            "seconds": f"{self.seconds:.2f}",
            "density calls": f"{self.num_density_calls:,.0f}",
            "network calls": f"{self.num_network_calls:,.0f}",
        }
        heads = "".join(f"<th>{escape(name)}</th>" for name in shown)
        cells = "".join(f"<td>{escape(value)}</td>" for value in shown.values())
        return f"<table><thead><tr>{heads}</tr></thead><tbody><tr>{cells}</tr></tbody></table>"

    def to_numpy(self) -> dict[str, np.ndarray]:
        """``x`` and, where there is one, ``log_weight`` as numpy arrays."""
        arrays = {"x": self.x.cpu().numpy()}
        if self.log_weight is not None:
            arrays["log_weight"] = self.log_weight.cpu().numpy()
        return arrays

    # -- in the tools of others, which are imported when they are asked for ----------------------

    def to_dimod(
        self,
        target: Target,
        *,
        beta: float = 1.0,
        vartype: str | None = None,
        aggregate: bool = False,
    ) -> dimod.SampleSet:
        """A sample set of dimod, variables named as the sites are or by number.

        ``energy`` is -log p̄/β, the energy of which p̄ is exp(-β·energy).  Two values are BINARY,
        or SPIN if they are called -1 and 1 or ``vartype`` says so; more are DISCRETE.  Weights are
        the vector ``log_weight`` of its record; ``log_z``, ``log_z_error`` and ``ess`` are in its
        ``info``.  With ``aggregate`` every state comes once, with its count and the mean of its
        weights.
        """
        from tcsis.draws.exports import to_dimod  # which knows of Draws

        return to_dimod(self, target, beta, vartype, aggregate)

    def to_inferencedata(self, target: Target | None = None) -> xarray.DataTree:
        """A tree that ArviZ reads: posterior/x (chain, draw, site), and in sample_stats
        ``log_weight`` and, with a target, ``energy``.  Independent draws are one chain, and
        ``attrs["independent"]`` says that they are none."""
        from tcsis.draws.exports import to_datatree  # which knows of Draws

        return to_datatree(self, target)

    def to_pandas(self, target: Target | None = None) -> pandas.DataFrame:
        """A table of a draw a row: a column for every site, by its name and with the names of its
        values as categories where the target has names; ``chain`` and ``draw`` of chains,
        ``energy`` and ``log_weight`` where they are known."""
        from tcsis.draws.exports import to_frame  # which knows of Draws

        return to_frame(self, target)

    def to_netcdf(self, path: str | Path, target: Target) -> None:
        """One file that ArviZ, xarray and ``tcsis.load_draws`` read."""
        from tcsis.draws.storage import write_draws  # which knows of Draws

        write_draws(path, self, target)


@runtime_checkable
class Sampler(Protocol):
    """Whatever gives ``n`` draws for a seed, and the same draws for the same seed: learned or not,
    exact, chains.  A judge or a report asks no more of a sampler than this."""

    def sample(self, n: int, *, seed: int = 0) -> Draws: ...


def concatenate(draws: list[Draws]) -> Draws:
    """Draws of several runs as one, costs added up."""
    if not draws:
        raise ValueError("draws is empty: expected at least one")
    if len({part.log_weight is None for part in draws}) > 1:
        raise ValueError("draws mixes weighted and unweighted runs: expected one kind")
    weights = [part.log_weight for part in draws if part.log_weight is not None]
    return Draws(
        x=torch.cat([part.x for part in draws]),
        log_weight=torch.cat(weights) if weights else None,
        seconds=sum(part.seconds for part in draws),
        num_density_calls=sum(part.num_density_calls for part in draws),
        num_network_calls=sum(part.num_network_calls for part in draws),
        fingerprint=joined([part.fingerprint for part in draws]),
    )


def joined(parts: list[Fingerprint | None]) -> Fingerprint | None:
    """One fingerprint of all, of those parts that have one."""
    made = [part for part in parts if part is not None]
    if not made:
        return None
    return Fingerprint(
        torch.cat([part.x for part in made]), torch.cat([part.log_density for part in made])
    )


def effective_share(log_weight: Tensor) -> float:
    """1/(n·Σ w²) of the normalised weights, (n,)."""
    weights = log_weight.double().softmax(0)
    return float(1 / (weights.square().sum() * len(weights)))


def systematic_resample(
    log_weight: Tensor, generator: torch.Generator | None = None, n: int | None = None
) -> Tensor:
    """Indices of n survivors in proportion to exp(log_weight), (..., m) -> (..., n) sorted; n is m
    by default.

    One uniform number for each population shifts a comb of n teeth over its cumulative weights, so
    index i appears n·w_i times rounded up or down, and n·w_i times on average.
    """
    *batch, size = log_weight.shape
    n = size if n is None else n
    cumulative = log_weight.double().softmax(-1).cumsum(-1)
    shift = torch.rand(
        (*batch, 1), dtype=torch.float64, device=log_weight.device, generator=generator
    )
    teeth = (torch.arange(n, device=log_weight.device) + shift) / n * cumulative[..., -1:]
    # rounding may put the last tooth at the very end, behind the last index that has weight
    last = (cumulative < cumulative[..., -1:]).sum(-1, keepdim=True)
    return torch.searchsorted(cumulative, teeth, right=True).minimum(last)
