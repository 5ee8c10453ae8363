"""Quadratic models of dimod, and QUBOs.

    log p̄(x) = -β·energy(x),    energy(x) = Σ q_ij z_i z_j + Σ a_i z_i + offset,

with z = ±1 in a model of spins and 0 or 1 in a binary one; token 0 is the smaller of the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tcsis.basics.checks import MAX_VALUES
from tcsis.formats.models import BINARY, SPIN, label, pairs_or_factors, quadratic, unlabel
from tcsis.targets.factors import Factors
from tcsis.targets.pairwise import Pairwise, check_beta


def from_bqm(bqm: Any, *, beta: float = 1.0) -> Pairwise:
    """A ``dimod.BinaryQuadraticModel``, spins or binary, in the order of its variables."""
    try:
        labels, spins = list(bqm.variables), bqm.vartype.name == "SPIN"
        linear, (row, column, biases), offset = bqm.to_numpy_vectors(variable_order=labels)[:3]
    except (AttributeError, TypeError):
        raise ValueError(
            f"bqm is a {type(bqm).__name__}: expected a dimod.BinaryQuadraticModel"
        ) from None
    if not labels:
        raise ValueError("bqm has no variables: expected at least one")
    target = quadratic(
        np.stack([row, column], 1), biases, linear, offset, SPIN if spins else BINARY, beta
    )
    return target.named(label(labels), target.value_names)


def to_bqm(target: Pairwise, *, beta: float = 1.0) -> Any:
    """A ``dimod.BinaryQuadraticModel`` with energy -log p̄/β, of the target's names; binary where
    the values are called 0 and 1, else of spins.  Names that are numbers become integers."""
    try:
        import dimod
    except ImportError:
        raise ValueError("dimod is not installed: pip install 'tcsis[dimod]'") from None
    if not isinstance(target, Pairwise) or target.num_values != 2:
        raise ValueError(f"target is {target}: expected a Pairwise of two values")
    if check_beta(beta) == 0:
        raise ValueError("beta is 0: expected another number, for -log p̄/β is the energy")
    strength, fields, constant = target.spin_form
    labels = unlabel(target.site_names, target.num_sites)
    pairs = [(labels[i], labels[j]) for i, j in target.edges.tolist()]
    couplings = dict(zip(pairs, (-strength / beta).tolist(), strict=True))
    linear = dict(zip(labels, (-fields / beta).tolist(), strict=True))
    bqm = dimod.BinaryQuadraticModel("SPIN")
    bqm.add_linear_from(linear)  # in their order, before pairs bring them in another
    bqm.add_quadratic_from(couplings)
    bqm.offset = -constant / beta
    binary = target.value_names is not None and set(target.value_names) == {BINARY}
    return bqm.change_vartype(dimod.BINARY, inplace=False) if binary else bqm


def from_qubo(qubo: Any, *, beta: float = 1.0, offset: float = 0.0) -> Pairwise:
    """Energy Σ_ij Q_ij x_i x_j + offset of x in {0,1}^d: a square array, a ``scipy.sparse`` matrix,
    or a dictionary {(i, j): q}.  Q_ij and Q_ji add up, and Q_ii is the field of site i."""
    if hasattr(qubo, "tocoo"):  # of scipy.sparse, of which one kind is a dictionary too
        matrix = qubo.tocoo()
        shape, row, column, values = matrix.shape, matrix.row, matrix.col, matrix.data
    elif isinstance(qubo, Mapping):
        return from_pairs(qubo, beta, offset)
    else:
        try:
            dense = np.asarray(qubo)
            dense = dense if dense.dtype.kind == "c" else dense.astype(float)
        except (TypeError, ValueError):
            raise ValueError(
                f"qubo is a {type(qubo).__name__}: expected a square array, a scipy.sparse matrix "
                "or a dictionary {(i, j): q}"
            ) from None
        shape, places = dense.shape, np.nonzero(np.atleast_2d(dense))
        row, column, values = places[0], places[1], np.atleast_2d(dense)[places]
    if len(shape) != 2 or shape[0] != shape[1] or not shape[0]:
        raise ValueError(f"qubo has shape {shape}: expected a square of at least one site")
    return from_entries(row, column, values, shape[0], beta, offset)


def from_entries(
    row: Any, column: Any, values: Any, num_sites: int, beta: float, offset: float
) -> Pairwise:
    """Entries of Q, (m,) each."""
    row, column, values = np.asarray(row), np.asarray(column), np.asarray(values)
    if values.dtype.kind not in "biuf":
        raise ValueError(f"qubo has values of type {values.dtype}: expected real numbers")
    values = values.astype(float)
    own = row == column
    fields = np.bincount(row[own], values[own], num_sites)
    edges = np.stack([row[~own], column[~own]], 1)
    return quadratic(edges, values[~own], fields, offset, BINARY, beta)


def from_pairs(qubo: Mapping[Any, Any], beta: float, offset: float) -> Pairwise:
    """The dictionary of a QUBO, its variables in the order of their first mention, or of their
    numbers where they are 0..d-1."""
    if not qubo or not all(isinstance(key, tuple) and len(key) == 2 for key in qubo):
        raise ValueError("qubo is a dictionary of other keys: expected {(i, j): q, ...}, not empty")
    found = dict.fromkeys(variable for pair in qubo for variable in pair)
    numbered = set(found) == set(range(len(found)))
    labels = list(range(len(found))) if numbered else list(found)
    place = {variable: k for k, variable in enumerate(labels)}
    row, column = np.array([[place[i], place[j]] for i, j in qubo]).T
    try:
        values = np.array([float(value) for value in qubo.values()])
    except (TypeError, ValueError):
        raise ValueError("qubo has a value that is no number: expected {(i, j): q, ...}") from None
    target = from_entries(row, column, values, len(labels), beta, offset)
    return target.named(label(labels), target.value_names)


def from_dqm(dqm: Any, *, beta: float = 1.0) -> Pairwise | Factors:
    """A ``dimod.DiscreteQuadraticModel``: ``Pairwise`` where all variables have equally many cases.
    The cases of a ``CaseLabelDQM`` give the values their names."""
    try:
        starts, linear, between, labels, offset = dqm.to_numpy_vectors(return_offset=True)
        row, column, biases = between
    except (AttributeError, TypeError):
        raise ValueError(
            f"dqm is a {type(dqm).__name__}: expected a dimod.DiscreteQuadraticModel"
        ) from None
    target = from_cases(starts, linear, row, column, biases, float(offset), beta)
    variables = list(labels)
    cases = [list(dqm.get_cases(variable)) for variable in variables]
    named = any(label(own) is not None for own in cases)
    values = [label(own) or [str(case) for case in own] for own in cases] if named else None
    return target.named(label(variables), values)


def from_cases(
    starts: Any, linear: Any, row: Any, column: Any, biases: Any, offset: float, beta: float
) -> Pairwise | Factors:
    """The vectors of a discrete quadratic model: cases of all variables are numbered through, and
    ``starts`` has the first of each."""
    beta = check_beta(beta)
    starts, linear = np.asarray(starts, np.int64), np.asarray(linear, float)
    counts = np.diff(starts, append=len(linear))
    if not len(counts) or counts.min() < 1 or counts.max() > MAX_VALUES or starts[0] != 0:
        raise ValueError(
            f"dqm has {len(counts)} variables of {sorted(set(counts.tolist()))} cases: expected at "
            f"least one, and 1 to {MAX_VALUES} cases each"
        )
    row, column = np.asarray(row, np.int64), np.asarray(column, np.int64)
    variable = np.repeat(np.arange(len(counts)), counts)
    tables: dict[tuple[int, int], np.ndarray] = {}
    for i, j, bias in zip(row.tolist(), column.tolist(), np.asarray(biases, float), strict=True):
        u, v = int(variable[i]), int(variable[j])
        if u == v:
            raise ValueError(f"dqm couples two cases of variable {u}: expected different variables")
        (u, i), (v, j) = sorted([(u, i), (v, j)])
        table = tables.setdefault((u, v), np.zeros((counts[u], counts[v])))
        table[i - starts[u], j - starts[v]] -= beta * bias
    fields = [((u,), -beta * linear[starts[u] : starts[u] + n]) for u, n in enumerate(counts)]
    return pairs_or_factors([*tables.items(), *fields], counts.tolist(), -beta * offset)
