"""Bayesian networks, log p(x) = Σ_i log p(x_i | its parents), and Markov networks of ``pgmpy``: a
factor for every table, with the names of the nodes and of their states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from tcsis.targets.factors import Factors


def from_pgmpy(model: Any, *, dtype: torch.dtype | None = None) -> Factors:
    """A ``pgmpy`` network as a target.

    A table of a Bayesian network has the node for its first axis and its parents for the others,
    and entries that are probabilities; one of a Markov network, factor graph or junction tree has
    any variables and entries of at least 0.  Zeros forbid.
    """
    if hasattr(model, "get_cpds"):
        tables = list(model.get_cpds())
        names = [table.variable for table in tables]
        nodes = {*model.nodes()}
    elif hasattr(model, "get_factors"):
        tables = list(model.get_factors())
        names = list(dict.fromkeys(name for table in tables for name in table.variables))
        # the nodes of factor graphs and of junction trees are others than the variables
        graph = type(model).__name__ in ("FactorGraph", "ClusterGraph", "JunctionTree")
        nodes = {*names} if graph else {*model.nodes()}
    else:
        raise ValueError(
            f"model is a {type(model).__name__}: expected a Bayesian or Markov network of pgmpy"
        )
    if not tables or {*names} != nodes:
        missing = sorted(str(node) for node in nodes - {*names})
        raise ValueError(
            f"the network has no table for {', '.join(missing[:5]) or 'any node'}: expected one "
            "for each node, as model.check_model() asks for"
        )
    return from_tables(names, tables, dtype)


def from_tables(names: Sequence[Any], tables: Sequence[Any], dtype: torch.dtype | None) -> Factors:
    """From objects with ``variables``, ``values`` and ``state_names``."""
    place = {name: site for site, name in enumerate(names)}
    states: dict[Any, list[Any]] = {}
    factors = []
    for table in tables:
        values = np.asarray(table.values, float)
        if not (values >= 0).all():
            raise ValueError(
                f"the table of {', '.join(map(str, table.variables))} has an entry below 0 or NaN: "
                "expected probabilities"
            )
        with np.errstate(divide="ignore"):  # log 0 is -inf, which forbids
            factors.append((tuple(place[name] for name in table.variables), np.log(values)))
        for name, found in table.state_names.items():
            own = list(found)
            if states.setdefault(name, own) != own:
                raise ValueError(
                    f"two tables have the states of {name} in different orders or under different "
                    "names: expected the same in both"
                )
    return Factors(
        factors,
        [len(states[name]) for name in names],
        site_names=[str(name) for name in names],
        value_names=[[str(state) for state in states[name]] for name in names],
        dtype=dtype,
    )
