"""Restricted Boltzmann machines of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcsis.formats.models import BINARY
from tcsis.targets.rbm import RBM


def from_sklearn(model: Any) -> RBM:
    """A fitted ``sklearn.neural_network.BernoulliRBM``, its hidden units summed out; columns of the
    table it was fitted on are the names of the sites."""
    try:
        weights = np.asarray(model.components_, float).T
        visible, hidden = model.intercept_visible_, model.intercept_hidden_
    except AttributeError:
        raise ValueError(
            f"model is a {type(model).__name__}: expected a BernoulliRBM that has been fitted"
        ) from None
    columns = getattr(model, "feature_names_in_", None)
    names = None if columns is None else [str(column) for column in columns]
    made = RBM(weights, np.asarray(visible, float).ravel(), np.asarray(hidden, float).ravel())
    return made.named(names, BINARY)
