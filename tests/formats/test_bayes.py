"""Bayesian networks of pgmpy as factors; a stand-in has its interface where it is not installed."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from tcsis import exact
from tcsis.formats.bayes import from_pgmpy


@dataclass
class Table:
    variable: str
    values: np.ndarray
    parents: list[str] = field(default_factory=list)

    @property
    def variables(self) -> list[str]:
        return [self.variable, *self.parents]

    @property
    def variable_card(self) -> int:
        return len(self.values)

    @property
    def state_names(self) -> dict[str, list[str]]:
        return {self.variable: [f"state {value}" for value in range(len(self.values))]}


@dataclass
class Network:
    tables: list[Table]
    names: tuple[str, ...] = ("rain", "sprinkler", "wet")

    def nodes(self) -> tuple[str, ...]:
        return self.names

    def get_cpds(self) -> list[Table]:
        return self.tables


RAIN = np.array([0.8, 0.15, 0.05])
SPRINKLER = np.array([[0.6, 0.9, 1.0], [0.4, 0.1, 0.0]])
WET = np.array([[1.0, 0.3, 0.1], [0.1, 0.05, 0.02]])
TABLES = [
    Table("rain", RAIN),
    Table("sprinkler", SPRINKLER, ["rain"]),
    Table("wet", np.stack([WET, 1 - WET]), ["sprinkler", "rain"]),
]


def test_a_network_is_a_normalised_law() -> None:
    target = from_pgmpy(Network(TABLES), dtype=torch.float64)
    assert target.cardinalities == (3, 2, 2)
    assert target.site_names == ("rain", "sprinkler", "wet")
    assert exact.solve(target).log_z == pytest.approx(0, abs=1e-14)
    x = torch.tensor([1, 0, 1])
    expected = np.log(RAIN[1] * SPRINKLER[0, 1] * (1 - WET)[0, 1])
    assert float(target.log_density(x)) == pytest.approx(expected, abs=1e-14)


def test_the_probability_of_evidence() -> None:
    target = from_pgmpy(Network(TABLES), dtype=torch.float64)
    given = target.given({"wet": "state 1"})
    joint = RAIN * SPRINKLER * (1 - WET)
    assert exact.solve(given).log_z == pytest.approx(np.log(joint.sum()), abs=1e-14)
    rain = exact.solve(given).site_marginals[0]
    np.testing.assert_allclose(rain, joint.sum(0) / joint.sum(), atol=1e-14)


def test_a_node_without_a_table() -> None:
    with pytest.raises(ValueError, match="the network has no table for wet: expected one for each"):
        from_pgmpy(Network(TABLES[:2]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["asia", "child", "insurance", "hailfinder"])
def test_pgmpys_own_elimination(name: str) -> None:
    """P(evidence) and the marginals given it, to 1e-9, where pgmpy is installed."""
    utils, inference = pytest.importorskip("pgmpy.utils"), pytest.importorskip("pgmpy.inference")
    network = utils.get_example_model(name)
    target = from_pgmpy(network, dtype=torch.float64)
    site = target.site_names.index(sorted(network.get_leaves())[0])
    state = int(exact.solve(target).site_marginals[site].argmax())
    evidence = {target.site_names[site]: target.value_names[site][state]}
    truth, peer = exact.solve(target.given(evidence)), inference.VariableElimination(network)
    for place in [place for place in range(target.num_sites) if place != site][::5]:
        law = peer.query([target.site_names[place]], evidence=evidence, show_progress=False)
        ours = truth.site_marginals[place][: target.cardinalities[place]]
        names = law.state_names[target.site_names[place]]
        order = [target.value_names[place].index(str(state)) for state in names]
        np.testing.assert_allclose(law.values, ours[order], rtol=1e-9)
