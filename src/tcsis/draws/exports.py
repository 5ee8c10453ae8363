"""Draws in the tools of others: dimod, xarray (which ArviZ reads) and pandas.

Sites go by their names where the target has names.  Independent draws stay independent: they are no
chains, or one chain that says so where a tool knows nothing else.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from tcsis.basics.optional import need
from tcsis.draws import Draws
from tcsis.formats.models import SPIN, unlabel
from tcsis.targets.base import Target

if TYPE_CHECKING:
    import dimod
    import pandas
    import xarray

OWN_COLUMNS = ("chain", "draw", "energy", "log_weight")
COSTS = ("seconds", "num_density_calls", "num_network_calls")
VARTYPES = ("SPIN", "BINARY")


# -- dimod ----------------------------------------------------------------------------------------


def to_dimod(
    draws: Draws, target: Target, beta: float, vartype: str | None, aggregate: bool
) -> dimod.SampleSet:
    """See ``Draws.to_dimod``."""
    dimod = need("dimod", "to_dimod", "dimod")
    if not beta > 0:
        raise ValueError(f"beta is {beta}: expected a number above 0, with p̄ = exp(-beta·energy)")
    chosen = choose_vartype(target, vartype)
    flat = draws.flat
    x, vectors = target.check(flat.x.to(target.device)).cpu(), {}
    if flat.log_weight is not None:
        vectors["log_weight"] = flat.log_weight.double().cpu()
    counts = torch.ones(len(x), dtype=torch.long)
    if aggregate:
        x, counts, vectors = aggregated(x, vectors)
    elif draws.x.ndim == 3:
        vectors |= dict(zip(("chain", "draw"), numbered(draws.x.shape), strict=True))
    energy = target.energy(x.to(target.device)).double().cpu() / beta
    values = 2 * x - 1 if chosen == "SPIN" else x
    return dimod.SampleSet.from_samples(
        (as_bytes(values).numpy(), unlabel(target.site_names, target.num_sites)),
        vartype=chosen, energy=energy.numpy(), num_occurrences=counts.numpy(),
        info=described(draws, target), sort_labels=False,
        **{name: vector.numpy() for name, vector in vectors.items()},
    )  # fmt: skip


def choose_vartype(target: Target, vartype: str | None) -> str:
    if target.num_values > 2:
        if vartype is not None:
            raise ValueError(
                f"vartype is {vartype!r} and sites have {target.num_values} values: expected none, "
                "which gives DISCRETE"
            )
        return "DISCRETE"
    if vartype is not None and vartype not in VARTYPES:
        raise ValueError(f"vartype is {vartype!r}: expected one of {', '.join(VARTYPES)}")
    spins = target.value_names is not None and set(target.value_names) == {SPIN}
    return vartype or ("SPIN" if spins else "BINARY")


def aggregated(x: Tensor, vectors: dict[str, Tensor]) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Every state once, how often it came, and the log of the mean of its weights, so that
    Σ count·w stays what it was."""
    states, inverse, counts = x.unique(dim=0, return_inverse=True, return_counts=True)
    if "log_weight" not in vectors:
        return states, counts, {}
    log_weight = vectors["log_weight"]
    top = log_weight[log_weight.isfinite()].max() if bool(log_weight.isfinite().any()) else 0.0
    total = torch.zeros(len(states), dtype=torch.float64)
    total.index_add_(0, inverse, (log_weight - top).exp())
    return states, counts, {"log_weight": (total / counts).log() + top}


def as_bytes(values: Tensor) -> Tensor:
    """As dimod keeps them where they fit."""
    return values.to(
        torch.int8 if int(values.max()) <= torch.iinfo(torch.int8).max else torch.int16
    )


# -- xarray and ArviZ -----------------------------------------------------------------------------


def to_datatree(draws: Draws, target: Target | None) -> xarray.DataTree:
    """See ``Draws.to_inferencedata``."""
    xarray = need("xarray", "to_inferencedata", "arviz")
    x = draws.x.cpu().numpy()
    if x.ndim > 3:
        raise ValueError(f"x has shape {x.shape}: expected (n, d) or (chain, draw, d)")
    shape = x.shape if x.ndim == 3 else (1, *x.shape)
    posterior = xarray.Dataset(
        {"x": (("chain", "draw", "site"), x.reshape(shape))},
        {"chain": np.arange(shape[0]), "draw": np.arange(shape[1]), "site": axis(draws, target)},
    )
    stats = {
        name: (("chain", "draw"), vector.numpy().reshape(shape[:2]))
        for name, vector in of_states(draws, target).items()
    }
    coordinates = {name: posterior[name] for name in ("chain", "draw")}
    groups = {"/posterior": posterior, "/sample_stats": xarray.Dataset(stats, coordinates)}
    tree = xarray.DataTree.from_dict(groups)
    tree.attrs = {
        name: int(value) if isinstance(value, bool) else value  # as NetCDF has no booleans
        for name, value in described(draws, target).items()
    }
    return tree


# -- pandas ---------------------------------------------------------------------------------------


def to_frame(draws: Draws, target: Target | None) -> pandas.DataFrame:
    """See ``Draws.to_pandas``."""
    pandas = need("pandas", "to_pandas", "pandas")
    flat = draws.flat.x.cpu().numpy()
    names = column_names(draws, target)
    values = None if target is None else target.value_names
    columns: dict[str, Any] = {}
    for site, name in enumerate(names):
        column = flat[:, site]
        columns[name] = (
            column if values is None else pandas.Categorical.from_codes(column, values[site])
        )
    if draws.x.ndim == 3:
        columns |= dict(zip(("chain", "draw"), numbered(draws.x.shape), strict=True))
    columns |= {name: vector.numpy() for name, vector in of_states(draws, target).items()}
    return pandas.DataFrame(columns)


def column_names(draws: Draws, target: Target | None) -> list[str]:
    """Names of sites, or x0, x1, ..."""
    if target is None or target.site_names is None:
        return [f"x{site}" for site in range(draws.x.shape[-1])]
    taken = [name for name in target.site_names if name in OWN_COLUMNS]
    if taken:
        raise ValueError(
            f"a site has the name {taken[0]!r}, which is that of another column: expected other "
            "names of sites; to_numpy and to_inferencedata take any"
        )
    return list(target.site_names)


# -- what all of them hold ------------------------------------------------------------------------


def axis(draws: Draws, target: Target | None) -> Any:
    """The names of the sites, or numbers."""
    names = None if target is None else target.site_names
    return np.arange(draws.x.shape[-1]) if names is None else list(names)


def numbered(shape: torch.Size) -> tuple[Tensor, Tensor]:
    """The chain and the place in it of every state of (chain, draw, d), laid end to end."""
    n = torch.arange(shape[0] * shape[1])
    return n // shape[1], n % shape[1]


def of_states(draws: Draws, target: Target | None) -> dict[str, Tensor]:
    """Numbers of every state, (n,): its energy -log p̄ and its log weight, where there are any."""
    flat, found = draws.flat, {}
    if target is not None:
        found["energy"] = target.energy(flat.x.to(target.device)).cpu()
    if flat.log_weight is not None:
        found["log_weight"] = flat.log_weight.cpu()
    return found


def described(draws: Draws, target: Target | None) -> dict[str, Any]:
    """Numbers and words on all draws together; what is not finite is left out."""
    estimates = {
        "log_z": draws.log_z, "log_z_error": draws.log_z_error, "ess": draws.ess,
    }  # fmt: skip
    return {
        "inference_library": "tcsis",
        "independent": draws.x.ndim == 2,
        **({} if target is None else {"target": repr(target)}),
        **{name: float(getattr(draws, name)) for name in COSTS},
        **{k: v for k, v in estimates.items() if v is not None and math.isfinite(v)},
    }
