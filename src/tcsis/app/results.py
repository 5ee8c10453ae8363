"""Results as plain JSON: all that a report shows, and nothing that needs the draws again.

``tcsis.app.summaries`` makes them from draws; ``Result.save`` and ``Result.load`` are the file.  A
number that is not finite, or that a method cannot give, is null.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from tcsis.basics.files import write_whole
from tcsis.basics.frozen import Frozen, explain
from tcsis.basics.seals import open_json, seal_json

MAX_PAIRS = 2_000


def finite(value: float | None) -> float | None:
    """The number, or null."""
    return value if value is not None and math.isfinite(value) else None


class Histogram(Frozen):
    """Probabilities of levels, or of bins about their centres."""

    values: list[float]
    probabilities: list[float]


class Correlation(Frozen):
    """G(r) for r = 0..max_distance and its standard errors."""

    values: list[float]
    errors: list[float]


class LogWeights(Frozen):
    """Shares of draws by log w - log Ẑ; the share that leaks, and the share that is forbidden,
    which leaks as well and is not in the histogram."""

    histogram: Histogram
    leak: float
    forbidden: float


class Answer(Frozen):
    level: str
    why: str


class Judgement(Frozen):
    """A verdict: its word, its sentence, and the answers for the draws as they come and for
    averages with their weights; ``by_weight`` is null where no weights differ."""

    level: str
    why: str
    as_drawn: Answer
    by_weight: Answer | None = None

    def __str__(self) -> str:
        return f"{self.level}. {self.why}"


class Observation(Frozen):
    """One row of an evaluation; a vector too long to show is left out of ``estimate``."""

    name: str
    estimate: list[float] | None = None
    exact: list[float] | None = None
    error: float | None = None
    floor: float | None = None


class SiteShares(Frozen):
    """How often a site that has a name, or whose values have, takes each of them."""

    site: str
    values: list[str]
    shares: list[float]
    exact: list[float] | None = None


class Traces(Frozen):
    """Energies of a few chains, (chain, draw), at the ``draws`` that were kept."""

    draws: list[int]
    energies: list[list[float | None]]


class MethodResult(Frozen):
    """What one method gave.  ``weighted`` says whether pictures and verdict use its weights.

    Where ``num_judged`` is there, the verdict and all that is seen of states are of the first so
    many of the ``n``; log Z, its error, the ESS, the ELBO and Pareto's k are of all.
    """

    name: str
    n: int
    num_effective: float
    seconds: float
    training_seconds: float
    num_density_calls: float
    num_network_calls: float
    acceptance: float | None
    log_z: float | None
    log_z_error: float | None
    ess: float | None
    elbo: float | None
    pareto_k: float | None
    weighted: bool
    log_weights: LogWeights | None
    verdict: Judgement
    rows: list[Observation]
    weighted_rows: list[Observation]
    correlation: Correlation | None
    magnetisation: Histogram | None
    energy: Histogram
    states: list[list[int]]
    traces: Traces | None
    sites: list[SiteShares] = Field(default_factory=list)
    num_judged: int | None = None


class TargetResult(Frozen):
    name: str
    spec: dict[str, Any]
    num_sites: int
    num_values: int
    shape: list[int] | None
    boundary: str | None


class ExactResult(Frozen):
    """``correlation_deviation`` is that of one independent draw at each distance: n of them know
    G(r) to correlation_deviation/√n."""

    method: str
    log_z: float
    mean_energy: float
    correlation: list[float] | None = None
    correlation_deviation: list[float] | None = None
    magnetisation: Histogram | None = None
    energy: Histogram | None = None
    states: list[list[int]] = Field(default_factory=list)


class Frame(Frozen):
    """A state on its way from noise to sample; ``times`` holds one time, or one for each site."""

    times: list[float]
    tokens: list[int]


class ScorePairs(Frozen):
    """Learned and exact log-scores of the same moves."""

    learned: list[float]
    exact: list[float]

    @model_validator(mode="after")
    def check_lengths(self) -> ScorePairs:
        if len(self.learned) != len(self.exact) or len(self.learned) > MAX_PAIRS:
            raise ValueError(
                f"{len(self.learned)} learned and {len(self.exact)} exact scores: "
                f"expected equally many, at most {MAX_PAIRS}"
            )
        return self


class TrainingPoint(Frozen):
    """``leak`` is of draws of the model, ``missed`` of states of the target: the shares that it
    gives more than 150 times their probability, and less than 1/150."""

    seconds: float | None = None
    step: int | None = None
    loss: float | None = None
    error: float | None = None
    floor: float | None = None
    ess: float | None = None
    elbo: float | None = None
    leak: float | None = None
    missed: float | None = None


class Result(Frozen):
    """All methods on one target, the main one first."""

    target: TargetResult
    exact: ExactResult | None
    methods: list[MethodResult]
    film: list[Frame] | None = None
    scores: ScorePairs | None = None
    history: list[TrainingPoint] = Field(default_factory=list)
    config: str = ""
    commands: list[str] = Field(default_factory=list)
    environment: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def check_methods(self) -> Result:
        if not self.methods:
            raise ValueError("methods is empty: expected at least one")
        return self

    def save(self, path: str | Path) -> None:
        """Write the result as a file, the whole of it or nothing, with its checksum."""
        write_whole(path, seal_json(self.model_dump_json(indent=1) + "\n"))

    @classmethod
    def load(cls, path: str | Path) -> Result:
        try:
            return cls.model_validate_json(open_json(Path(path), Path(path).read_bytes()))
        except OSError as error:
            raise ValueError(f"{path} cannot be read ({error.strerror}): expected a file") from None
        except ValidationError as error:
            raise ValueError(
                f"{path} is not a result of tcsis ({explain(error, 'result', cls)}): expected a "
                "result.json that this version wrote"
            ) from None
