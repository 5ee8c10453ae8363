"""Imports point one way: a module may use only what stands on an earlier line."""

import ast
from pathlib import Path

import tcsis

LAYERS = [
    ("tcsis.checks",),
    ("tcsis.targets",),
    ("tcsis.noise", "tcsis.draws", "tcsis.progress"),
    ("tcsis.metrics",),
    ("tcsis.exact", "tcsis.mcmc", "tcsis.identity"),
    ("tcsis.schedules", "tcsis.steps", "tcsis.calls"),
    ("tcsis.trapezoidal", "tcsis.events", "tcsis.reverse"),
    ("tcsis.planning", "tcsis.weights", "tcsis.unlearned"),
    ("tcsis.evaluation", "tcsis.checkpoint", "tcsis.config", "tcsis.objectives", "tcsis.nn"),
    ("tcsis.descent",),
    ("tcsis.models", "tcsis.proposals", "tcsis.presets", "tcsis.evidence", "tcsis.storage"),
    ("tcsis.verdict",),
    ("tcsis.estimates",),
    ("tcsis.losses",),
    ("tcsis.assemble",),
    ("tcsis.learned",),
    ("tcsis.training",),
    ("tcsis.trainer", "tcsis.trajectory"),
    ("tcsis.results",),
    ("tcsis.summaries", "tcsis.report", "tcsis.tables"),
    ("tcsis.baselines",),
    ("tcsis.methods",),
    ("tcsis.comparison",),
    ("tcsis.sources", "tcsis.settings"),
    ("tcsis.runs",),
    ("tcsis.experiment",),
    ("tcsis.study",),
    ("tcsis.cli",),
]
ROOT = Path(tcsis.__file__).parent


def layer(module: str) -> int | None:
    """The line a module stands on; None for the package itself and other people's modules."""
    for number, names in enumerate(LAYERS):
        if any(module == name or module.startswith(name + ".") for name in names):
            return number
    return None


def imported(path: Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            # `from tcsis import exact` names modules, `from tcsis.exact import solve` does not
            names += [f"tcsis.{alias.name}" for alias in node.names if node.module == "tcsis"]
            names.append(node.module or "")
    return names


def test_imports_point_one_way() -> None:
    for path in ROOT.rglob("*.py"):
        module = ".".join(["tcsis", *path.relative_to(ROOT).with_suffix("").parts])
        module = module.removesuffix(".__init__")
        if module == "tcsis":
            continue
        here = layer(module)
        assert here is not None, f"{module} stands on no line: give it a place in LAYERS"
        for name in imported(path):
            there = layer(name)
            assert there is None or there <= here, f"{module} imports {name}, which comes later"
