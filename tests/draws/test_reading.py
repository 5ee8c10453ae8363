"""Anybody's draws: every form gives the same tokens, and what does not fit is refused in a
sentence."""

from typing import Any

import dimod
import numpy as np
import pandas
import pytest
import torch
import xarray

import tcsis
from tcsis.draws.reading import as_draws
from tcsis.targets import Ising, Potts
from tcsis.targets.factors import Factors

TARGET = Ising(3, 0.4, dtype=torch.float64)
DRAWS = tcsis.exact.draw(TARGET, 120, seed=1)
X = DRAWS.x.numpy().astype(int)
CHAINS = tcsis.Draws(DRAWS.x.reshape(4, 30, 9))
SHUFFLED = np.random.default_rng(0).permutation(9)


def shuffled_samples() -> dimod.SampleSet:
    """Variables in another order, some samples counted twice."""
    return dimod.SampleSet.from_samples(
        (2 * X[:, SHUFFLED] - 1, SHUFFLED.tolist()), "SPIN", energy=np.zeros(len(X))
    )


def scalars() -> xarray.Dataset:
    parts = {f"x[{i}]": (("chain", "draw"), X[:, i].reshape(4, 30)) for i in SHUFFLED}
    return xarray.Dataset(parts)


class InferenceData:
    """What arviz below 1.0 gives, as far as it is looked at."""

    def __init__(self, posterior: xarray.Dataset):
        self.posterior, self.attrs = posterior, {}

    def groups(self) -> list[str]:
        return ["posterior"]

    def __getitem__(self, name: str) -> xarray.Dataset:
        return getattr(self, name)


INDEPENDENT: dict[str, Any] = {
    "draws": DRAWS,
    "tokens": X,
    "torch": DRAWS.x.long(),
    "list": X.tolist(),
    "booleans": X.astype(bool),
    "floats": X.astype(np.float32),
    "spins": 2 * X - 1,
    "spins as floats": 2.0 * X - 1,
    "binary sample set": DRAWS.to_dimod(TARGET),
    "spin sample set": shuffled_samples(),
    "table": DRAWS.to_pandas(TARGET),
    "table of spins, columns by number": pandas.DataFrame(2 * X - 1)[SHUFFLED.tolist()],
    "mapping": {f"x{i}": X[:, i] for i in SHUFFLED},
    "tree": DRAWS.to_inferencedata(),
    "table of a sample set": shuffled_samples().to_pandas_dataframe(),
}
IN_CHAINS: dict[str, Any] = {
    "array": CHAINS.x.numpy(),
    "spins": 2 * CHAINS.x.long() - 1,
    "tree": CHAINS.to_inferencedata(TARGET),
    "table": CHAINS.to_pandas().sample(frac=1, random_state=1),
    "sample set": CHAINS.to_dimod(TARGET),
    "scalars": scalars(),
    "array with names of axes": xarray.DataArray(
        X.reshape(4, 30, 9).transpose(1, 0, 2), dims=("draw", "chain", "spin")
    ),
    "inference data": InferenceData(scalars()),
}


@pytest.mark.parametrize("source", INDEPENDENT.values(), ids=INDEPENDENT)
def test_independent_draws(source: Any) -> None:
    assert torch.equal(as_draws(source, TARGET).x, DRAWS.x)


@pytest.mark.parametrize("source", IN_CHAINS.values(), ids=IN_CHAINS)
def test_chains(source: Any) -> None:
    assert torch.equal(as_draws(source, TARGET).x, CHAINS.x)


@pytest.mark.parametrize("form", ["to_dimod", "to_inferencedata", "to_pandas"])
def test_our_own_weights_come_back(form: str) -> None:
    weighted = tcsis.Draws(DRAWS.x, torch.linspace(-1, 1, 120, dtype=torch.float64))
    back = as_draws(getattr(weighted, form)(TARGET), TARGET)
    assert torch.equal(back.log_weight, weighted.log_weight)
    assert as_draws(getattr(tcsis.Draws(DRAWS.x), form)(TARGET), TARGET).log_weight is None


def test_occurrences_are_counted_out() -> None:
    draws = as_draws(DRAWS.to_dimod(TARGET, aggregate=True), TARGET)
    assert len(draws) == 120
    states, counts = DRAWS.x.unique(dim=0, return_counts=True)
    again, as_many = draws.x.unique(dim=0, return_counts=True)
    assert torch.equal(states, again)
    assert torch.equal(counts, as_many)


def test_names_of_sites_and_values(weather: Factors) -> None:
    draws = tcsis.exact.draw(weather, 40, seed=3)
    table = draws.to_pandas(weather)
    shuffled = table[["dog", "log_weight", "sky", "energy", "grass"]]
    for source in (table, shuffled, shuffled.astype({"sky": str}), draws.to_dimod(weather)):
        back = as_draws(source, weather)
        assert torch.equal(back.x, draws.x)
        assert torch.equal(back.log_weight, draws.log_weight)
    tree = draws.to_inferencedata(weather)
    turned = tree["posterior"].to_dataset().isel(site=[2, 0, 1])
    assert torch.equal(as_draws(turned, weather).flat.x, draws.x)
    words = table[["sky", "grass", "dog"]].to_numpy()
    assert torch.equal(as_draws(words, weather).x, draws.x)
    words[3, 0] = "fog"
    with pytest.raises(ValueError, match="'fog' at site sky: expected one of clear, cloudy, rain"):
        as_draws(words, weather)


def test_tokens_of_three_values_are_no_spins() -> None:
    target = Potts(2, 3, 0.5)
    with pytest.raises(ValueError, match=r"values from -1 to 1: expected tokens 0\.\.2$"):
        as_draws([[-1, 1, -1, 1]], target)
    assert as_draws([0, 1, 2, 0], target).x.tolist() == [[0, 1, 2, 0]]


SAMPLES = DRAWS.to_dimod(TARGET)
REFUSED: dict[str, tuple[Any, str]] = {
    "shape": (X[:, :8], r"shape \(120, 8\): expected \(n, 9\) or \(chain, draw, 9\)"),
    "axes": (X.reshape(2, 3, 20, 9), r"shape \(2, 3, 20, 9\): expected"),
    "one number": (np.float64(1), r"shape \(\): expected"),
    "ragged": ([[0, 1], [1]], "lists of different lengths: expected"),
    "halves": (X + 0.5, "value 1?0?.5: expected tokens 0..1, or spins"),
    "mixed": (X * 2 - X % 2 - 1, "values from -1 to 0: expected tokens 0..1, or spins"),
    "three": (X * 3, "values from 0 to 3: expected tokens"),
    "nan": (np.where(X == 1, np.nan, 0.0), "values from nan to nan: expected tokens"),
    "complex": (X * 1j, "type complex128: expected tokens"),
    "empty": (X[:0], "no draws: expected at least one"),
    "words": (X.astype(str).astype(object) + "a", "'0a' at site 0: expected a number"),
    "file": ("samples.csv", "draws is a str: expected Draws"),
    "nothing": (None, "draws is a NoneType: expected Draws"),
    "other variables": (
        SAMPLES.relabel_variables({i: f"v{i}" for i in range(9)}, inplace=False),
        r"columns v0, v1, v2, v3, v4, ...: expected their numbers 0\.\.8",
    ),
    "columns": (pandas.DataFrame(X).assign(extra=1), "10 columns of values .* expected 9"),
    "chains": (
        CHAINS.to_pandas().iloc[:-1], "chains of 29 to 30 draws: expected chains of one length",
    ),
    "weights": (DRAWS.to_pandas().assign(log_weight=np.nan), "log_weight of nan"),
    "no posterior": (xarray.DataTree.from_dict({"/prior": scalars()}), "groups prior: expected"),
    "sites of a variable": (
        xarray.DataArray(np.zeros((2, 3, 8)), dims=("chain", "draw", "s")), "8 entries of s a draw",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("source", "why"), REFUSED.values(), ids=REFUSED)
def test_refusals(source: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why) as caught:
        tcsis.judge(source, TARGET)
    assert "\n" not in str(caught.value)
