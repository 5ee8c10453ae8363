"""Anybody's draws as ``Draws``: arrays, dimod's sample sets, ArviZ, xarray and pandas.

Libraries that were never imported cannot have made what came, and are not imported here.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tcsis.basics.checks import make_generator
from tcsis.basics.optional import is_instance
from tcsis.draws import Draws
from tcsis.draws.tokens import as_numbers, is_text, places, shown, tokens
from tcsis.targets.base import Target

ABOUT_STATES = ("chain", "draw", "energy", "log_weight", "num_occurrences")
"""Columns that hold no values of sites."""
WITHOUT_NAME = ("", "Unnamed: 0")
"""The number of a row, as pandas writes it into a file."""
MOST_DRAWS = 2**26
"""That are counted out."""
EXPECTED = (
    "expected Draws, an array (n, d) or (chain, draw, d), a dimod SampleSet, an ArviZ or xarray "
    "object with a posterior, or a table with a column for every site"
)


def as_draws(source: Any, target: Target) -> Draws:
    """Draws of ``target`` from whatever holds them.

    Arrays are (n, d) for independent draws and (chain, draw, d) for chains.  Values are tokens, or
    for V = 2 spins ±1, or the names that the target has for them; columns and variables are sites
    by name or by number.  Occurrences are counted out.  What is called ``log_weight`` is taken for
    weights with E[exp(log_weight)] = Z.
    """
    if isinstance(source, Draws):
        return source
    if is_instance(source, sys.modules.get("dimod"), "SampleSet"):
        return from_sample_set(source, target)
    if is_instance(source, sys.modules.get("pandas"), "DataFrame"):
        columns = {name: source[name].to_numpy() for name in source.columns}
        return from_columns(columns, target, "the table")
    if is_instance(source, sys.modules.get("xarray"), "DataArray"):
        return from_posterior({str(source.name or "x"): source}, None, {}, target)
    if is_instance(source, sys.modules.get("xarray"), "Dataset"):
        return from_posterior(source.data_vars, source.get("log_weight"), source.attrs, target)
    if hasattr(source, "posterior") or is_instance(source, sys.modules.get("xarray"), "DataTree"):
        return from_inference_data(source, target)
    if isinstance(source, Mapping):
        return from_columns(source, target, "the table")
    return from_array(source, target)


# -- arrays and tables ----------------------------------------------------------------------------


def from_array(source: Any, target: Target) -> Draws:
    if isinstance(source, Tensor):
        source = source.detach().cpu().numpy()
    if isinstance(source, str | bytes) or not (hasattr(source, "__array__") or is_list(source)):
        raise ValueError(f"draws is a {type(source).__name__}: {EXPECTED}")
    try:
        values = np.asarray(source)
    except ValueError:
        raise ValueError(f"draws is a list of lists of different lengths: {EXPECTED}") from None
    d = target.num_sites
    if values.ndim == 1 and len(values) == d:  # a single state
        values = values[None]
    if values.ndim not in (2, 3) or values.shape[-1] != d:
        raise ValueError(
            f"draws have shape {values.shape}: expected (n, {d}) or (chain, draw, {d})"
        )
    if is_text(values):
        values = as_numbers(list(np.moveaxis(values, -1, 0)), target, "the array")
    return Draws(tokens(values, target, "the array"))


def is_list(source: Any) -> bool:
    return isinstance(source, list | tuple)


def from_columns(columns: Mapping[Hashable, Any], target: Target, what: str) -> Draws:
    """Columns of one value a draw, those of ``ABOUT_STATES`` aside."""
    named = target.site_names or ()
    about = {
        label: np.asarray(column)
        for label, column in columns.items()
        if label in ABOUT_STATES and label not in named
    }
    labels = [
        label
        for label in columns
        if label not in about and (label in named or label not in WITHOUT_NAME)
    ]
    order = places(labels, target, what)
    values = as_numbers([columns[labels[k]] for k in order], target, what)
    wrong = next((label for label in about if about[label].shape != values.shape[:-1]), None)
    if values.ndim != 2 or wrong is not None:
        shape = values.shape[:-1] if wrong is None else about[wrong].shape
        raise ValueError(f"{what} has a column of shape {shape}: expected one value a draw")
    return assemble(tokens(values, target, what), about, what)


def assemble(x: Tensor, about: Mapping[Any, np.ndarray], what: str) -> Draws:
    """Draws from states (n, d) and what is known about each, (n,)."""
    log_weight = about.get("log_weight")
    weight = None if log_weight is None else read_weights(log_weight, what)
    times = read_counts(about.get("num_occurrences"), len(x), what)
    if "chain" in about and bool((times == 1).all()):
        return in_chains(x, weight, about, what)
    rows = torch.arange(len(x)).repeat_interleave(times)
    if len(rows) > len(x) or is_sorted(about.get("energy")):
        # what was counted or sorted is in no order of its own, and alike neighbours show nothing
        rows = rows[torch.randperm(len(rows), generator=make_generator(0, "no order"))]
    return Draws(x[rows], None if weight is None else weight[rows])


def read_counts(counts: np.ndarray | None, n: int, what: str) -> Tensor:
    if counts is None:
        return torch.ones(n, dtype=torch.long)
    try:
        told = np.asarray(counts, np.float64)
    except ValueError:
        told = np.full(n, np.nan)
    total = float(told.sum())
    if not (told >= 0).all() or not (told == told.round()).all() or not 0 < total <= MOST_DRAWS:
        raise ValueError(
            f"{what} has num_occurrences that add up to {total:g}, or that are no counts: expected "
            f"whole numbers of at least 0, and 1 to {MOST_DRAWS:,} in all"
        )
    return torch.from_numpy(told.astype(np.int64))


def is_sorted(energy: np.ndarray | None) -> bool:
    """Whether energies (n,) only rise or only fall."""
    if energy is None or len(energy) < 2:
        return False
    steps = np.diff(np.asarray(energy, np.float64))
    return bool(steps.any()) and (bool((steps >= 0).all()) or bool((steps <= 0).all()))


def read_weights(values: np.ndarray, what: str) -> Tensor:
    try:
        weight = torch.from_numpy(np.array(values, np.float64))
    except ValueError:
        raise ValueError(f"{what} has a log_weight that is no number: expected numbers") from None
    if bool(weight.isnan().any()) or bool((weight == torch.inf).any()):
        raise ValueError(f"{what} has a log_weight of nan or +inf: expected numbers, or -inf")
    return weight


def in_chains(
    x: Tensor, weight: Tensor | None, about: Mapping[Any, np.ndarray], what: str
) -> Draws:
    """The same as (chain, draw, d), chains in the order of their labels, draws in theirs or as
    they came."""
    chain = np.unique(np.asarray(about["chain"]).astype(str), return_inverse=True)[1]
    lengths = np.bincount(chain)
    if len(set(lengths.tolist())) > 1:
        raise ValueError(
            f"{what} has chains of {lengths.min()} to {lengths.max()} draws: expected chains of "
            "one length; without a column chain the draws count as independent"
        )
    place = column_order(about.get("draw"), len(chain), what)
    order = torch.from_numpy(np.lexsort((place, chain)))
    shape = (len(lengths), int(lengths[0]))
    return Draws(
        x[order].reshape(*shape, -1), None if weight is None else weight[order].reshape(shape)
    )


def column_order(draw: np.ndarray | None, n: int, what: str) -> np.ndarray:
    if draw is None:
        return np.arange(n)
    try:
        return np.asarray(draw, np.float64)
    except ValueError:
        raise ValueError(f"{what} has a column draw that holds no numbers") from None


# -- dimod ----------------------------------------------------------------------------------------


def from_sample_set(samples: Any, target: Target) -> Draws:
    """Every sample as often as it occurred."""
    record, what = samples.record, "the sample set"
    order = places(list(samples.variables), target, what)
    x = tokens(np.asarray(record.sample)[:, order], target, what)
    about = {name: np.asarray(record[name]) for name in record.dtype.names if name in ABOUT_STATES}
    return assemble(x, about, what)


# -- ArviZ and xarray -----------------------------------------------------------------------------


def from_inference_data(source: Any, target: Target) -> Draws:
    """The posterior of an ArviZ ``InferenceData``, or of the DataTree that took its place."""
    groups = source.children if hasattr(source, "children") else source.groups()
    if "posterior" not in groups:
        raise ValueError(f"the tree has groups {shown(list(groups))}: expected a posterior")
    stats = source["sample_stats"] if "sample_stats" in groups else {}
    log_weight = stats.get("log_weight")
    return from_posterior(source["posterior"].data_vars, log_weight, source.attrs, target)


def from_posterior(
    variables: Mapping[Hashable, Any], log_weight: Any, attrs: Mapping[Any, Any], target: Target
) -> Draws:
    """One variable (chain, draw, site), or one (chain, draw) for every site."""
    variables = {name: part for name, part in variables.items() if name not in ABOUT_STATES}
    whole = [name for name, part in variables.items() if part.ndim == 3]
    if len(whole) == 1 or "x" in whole:
        x = whole_states(variables["x" if "x" in whole else whole[0]], target)
    else:
        order = places(list(variables), target, "the posterior")
        parts = [list(variables.values())[k] for k in order]
        x = as_numbers([scalar_values(part) for part in parts], target, "the posterior")
    found = tokens(x, target, "the posterior")
    weight = None
    if log_weight is not None:
        weight = read_weights(in_order(log_weight).to_numpy(), "the posterior")
    draws = Draws(found, weight)
    return draws.flat if attrs.get("independent") else draws


def whole_states(variable: Any, target: Target) -> np.ndarray:
    """(chain, draw, d) with sites in the order of the target, by name where both have names."""
    variable = in_order(variable)
    d, last = target.num_sites, variable.dims[-1]
    if variable.shape[-1] != d:
        raise ValueError(
            f"the variable {variable.name} has {variable.shape[-1]} entries of {last} a draw: "
            f"expected {d}, one a site of the target"
        )
    labels = variable.coords[last].values.tolist() if last in variable.coords else []
    if target.site_names is not None and set(target.site_names) == {str(k) for k in labels}:
        variable = variable[..., places(labels, target, "the posterior")]
    return variable.to_numpy()


def scalar_values(variable: Any) -> np.ndarray:
    variable = in_order(variable)
    if variable.ndim != 2:
        raise ValueError(
            f"the variable {variable.name} has axes {shown(variable.dims)}: expected chain and "
            "draw, or one variable with an axis of sites besides"
        )
    return variable.to_numpy()


def in_order(variable: Any) -> Any:
    """With the axes chain and draw first, where it has them by name."""
    if {"chain", "draw"} <= set(variable.dims):
        return variable.transpose("chain", "draw", ...)
    return variable
