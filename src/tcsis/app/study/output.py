"""The folder of a study.

cells/                one file for every run
table.md, table.csv   a row for every setting and method
*.png                 the figures
index.md              how it was made
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from tcsis.app import runs
from tcsis.app.executors import Failure
from tcsis.app.study import plots
from tcsis.app.study.cells import Cell
from tcsis.app.study.plan import Plan, Task
from tcsis.app.study.table import Row, as_csv, as_markdown, make_rows
from tcsis.basics.files import whole_file, write_whole

DPI = 160
PACKAGES = ("tcsis", "torch", "numba", "numpy")


def write(
    plan: Plan,
    folder: Path,
    cells: dict[Task, Cell],
    failures: Mapping[Task, Failure],
    command: str,
    where: str,
) -> list[Row]:
    """Everything but the cells, from the cells; returns the rows of the table."""
    rows = make_rows(plan, cells)
    write_whole(folder / "table.md", table_page(plan, rows))
    write_whole(folder / "table.csv", as_csv(rows))
    for name, figure in plots.figures(plan, cells).items():
        with whole_file(folder / f"{name}.png") as temporary:
            figure.savefig(temporary, format="png", dpi=DPI)
    write_whole(folder / "index.md", index_page(plan, failures, command, where))
    return rows


def table_page(plan: Plan, rows: Sequence[Row]) -> str:
    return f"""# The study of the paper: table

[How it was made, and the figures](index.md). An error is the mean of |G(r) − exact| over all
distances r ≥ 1, its mean ± sample standard deviation over the seeds, for draws as they come. The
floor is the error that as many perfect independent draws would show; weighted/floor is the error by
the weights of the draws over the same floor. ESS and log Z are from those weights; log Z error is
the largest of the seeds. P(m > 0) is the share of draws with a positive mean spin. Densities are
evaluations of log p̄, those of training and drawing together; calls are evaluations of the network
for one draw, plans included. The last state of a chain is one draw.

{as_markdown(rows)}"""


def index_page(plan: Plan, failures: Mapping[Task, Failure], command: str, where: str) -> str:
    pictures = "\n".join(f"![{text}]({name}.png)\n" for name, text in CAPTIONS.items())
    settings = "; ".join(setting.name for setting in plan.settings)
    environment = ", ".join(
        [f"Python {platform.python_version()}"]
        + [f"{package} {runs.find_version(package)}" for package in PACKAGES]
    )
    return f"""# The study of the paper

The experiments of *Sampling from Energy distributions with Target Concrete Score Identity* on
periodic Ising lattices, with exact answers beside every number.

    {command}

writes this folder: the [table](table.md), the same as [CSV](table.csv), the figures below, and one
file for every run in `cells`. A run that is finished is not run again.

Settings: {settings}.
{budget(plan)}
{where}.
{environment}.
{failed(failures)}
{pictures}
## Methods

{METHODS_TEXT}"""


CAPTIONS = {
    "error": "Error of G(r) over its floor, every method and setting",
    "distances": "Error of G(r) over its floor at every distance",
    "correlation": "G(r) of every method, on the exact values",
    "magnetisation": "The distribution of the mean spin",
}

METHODS_TEXT = """\
- TCSIS, self-normalized: the paper's process, all sites at one time and its number of calls, with
  this library's estimate (posterior sweeps from an annealed population), path objective, light
  network and second-order steps.
- TCSIS, unbiased: the marginal on the same process, by Itakura–Saito on joint estimates, with
  scores from its second head.
- TCSIS, as in the paper: the same process with estimates from N draws a state as in its Table 1
  (shared by all ratios, as in its Appendix A.2), its proposal, objective, transformer and Euler
  steps; a rate of 1e-3 with warm-up and decay, and from side 10 on batches of 16, for there is a
  minute and not a day. Its network is slow here: fewer draws are made, and the unbiased form, which
  asks it d·V + 1 times a call, is run at side 4 alone.
- TCSIS, any-time, planned blocks: one network for any known sites, drawn along blocks in at most
  the paper's number of calls, the last colour class from the target.
- autoregressive: what `tcsis.train` does by default up to 128 sites. Sites one by one with a causal
  network, one call a site, the last colour class from the target; not a diffusion, and not the
  paper's.
- LEAPS, DNFS, MDNS, SDDS, VAN: [neural samplers of others](../../peers.md), which says where each
  goes beyond its paper. LEAPS and DNFS are drawn twice: with the continuous-time weights of their
  papers, and, stirred, with the weights of the steps as they are taken.
- learning-free, population annealing: ladders to the target, without a network.
- Glauber and Wolff, equal time: as many steps as the time of a training pays for.
- GWG: as many steps from noise as the samplers have calls, as in the paper's appendix.
- Glauber, 10,000 steps: single-site steps from noise, the ground truth of the paper; every draw is
  the end of a chain of its own.
- exact: independent exact draws, the floor made visible; by coupling from the past at side 16.
"""


def budget(plan: Plan) -> str:
    """How long trainings were, in a sentence."""
    if plan.seconds is None:
        steps = "; ".join(f"{m.title}: {m.quick_steps}" for m in plan.methods if m.timed)
        return f"Quick: trainings of a few seconds, by steps. {steps}."
    limits = ", ".join(f"{s:g} s at side {side}" for side, s in plan.seconds.items())
    return (
        "The paper left out side 10 at β = 0.6, and has no side 16. Every training, and every "
        f"chain in equal time, has {limits}."
    )


def failed(failures: Mapping[Task, Failure]) -> str:
    if not failures:
        return ""
    lines = "\n".join(f"- {task.label}: {failure.sentence}" for task, failure in failures.items())
    return f"\nRuns that failed, and are not in the table:\n\n{lines}\n"
