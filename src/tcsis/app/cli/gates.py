"""Quality that the user asks for: met, or exit code 5."""

from __future__ import annotations

from tcsis import exact
from tcsis.app.cli.options import GateOptions
from tcsis.app.report.figures import first_error
from tcsis.app.results import MethodResult
from tcsis.judging.findings import LEVELS
from tcsis.targets.base import Target


def check_options(gates: GateOptions) -> None:
    """Refuse limits that mean nothing."""
    if gates.max_error is not None and not gates.max_error > 0:
        raise ValueError(f"max-error is {gates.max_error}: expected a number above 0")
    if gates.min_ess is not None and not 0 < gates.min_ess <= 1:
        raise ValueError(f"min-ess is {gates.min_ess}: expected a share above 0, at most 1")
    if gates.require is not None and level_of(gates.require) not in LEVELS[:3]:
        raise ValueError(
            f"require is {gates.require!r}: expected 'trusted', 'trusted-by-weight' or 'unrefuted'"
        )


def check_target(gates: GateOptions, target: Target) -> None:
    """Refuse a limit that cannot be checked."""
    if gates.max_error is not None and not exact.solvable(target):
        raise ValueError(f"max-error needs exact answers: {target} is too large for them")


def failures(method: MethodResult, gates: GateOptions, *, weighted: bool = False) -> list[str]:
    """A sentence for every limit that the draws miss."""
    found = []
    if gates.max_error is not None:
        row = first_error(method.weighted_rows if weighted else method.rows)
        assert row is not None and row.error is not None  # as check_target made sure
        if not row.error <= gates.max_error:
            found.append(
                f"{method.name}: the error of the {row.name} is {row.error:.4g}, "
                f"above --max-error {gates.max_error:g}"
            )
    if gates.min_ess is not None:
        share = method.ess if method.ess is not None else method.num_effective / method.n
        if not share >= gates.min_ess:
            found.append(f"{method.name}: ESS is {share:.4g}, below --min-ess {gates.min_ess:g}")
    if gates.require is not None:
        level = method.verdict.level
        if LEVELS.index(level) > LEVELS.index(level_of(gates.require)):
            found.append(f"{method.name}: the verdict is {level}, not --require {gates.require}")
    return found


def level_of(name: str) -> str:
    """The level of a verdict as it is written on the command line."""
    return name.replace("-", " ")
