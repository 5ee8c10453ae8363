"""Bayesian networks: log p(x) = Σ_i log p(x_i | its parents), a factor for every table."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tcsis.targets.factors import Factors


def from_pgmpy(model: Any, *, dtype: torch.dtype | None = None) -> Factors:
    """A ``pgmpy`` network as a target, with the names of its nodes and of their states.

    A table of such a network has the node for its first axis and its parents for the others, and
    entries that are probabilities; zeros forbid.
    """
    tables = list(model.get_cpds())
    names = [table.variable for table in tables]
    if not tables or {*names} != {*model.nodes()}:
        missing = sorted(str(node) for node in {*model.nodes()} - {*names})
        raise ValueError(
            f"the network has no table for {', '.join(missing[:5]) or 'any node'}: expected one "
            "for each node, as model.check_model() asks for"
        )
    place = {name: site for site, name in enumerate(names)}
    with np.errstate(divide="ignore"):  # log 0 is -inf, which forbids
        factors = [
            ([place[name] for name in table.variables], np.log(np.asarray(table.values, float)))
            for table in tables
        ]
    return Factors(
        factors,
        [int(table.variable_card) for table in tables],
        site_names=[str(name) for name in names],
        value_names=[
            [str(state) for state in table.state_names[table.variable]] for table in tables
        ],
        dtype=dtype,
    )
