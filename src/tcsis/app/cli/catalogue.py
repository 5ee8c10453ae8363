"""``tcsis targets``: what can be sampled from.  Nothing here waits for torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from rich.table import Table

from tcsis.app.cli.failures import FINE
from tcsis.app.cli.options import PrintOptions
from tcsis.app.cli.printer import Printer


@dataclass(frozen=True)
class Described:
    """A target on the command line: its arguments, as ``tcsis.targets.spec`` has them, and one
    that can be tried."""

    name: str
    needs: tuple[str, ...]
    may_have: tuple[str, ...]
    example: str


GRAPH = ("--as", "--beta", "--fugacity", "--num-values")
TARGETS = (
    Described(
        "ising", ("--side", "--beta"), ("--field", "--boundary"), "ising --side 4 --beta 0.4407"
    ),
    Described(
        "potts", ("--side", "--num-values", "--beta"), ("--boundary",),
        "potts --side 6 --num-values 3 --beta 1.005",
    ),
    Described(
        "spin-glass", ("--side", "--beta"), ("--disorder", "--disorder-seed", "--boundary"),
        "spin-glass --side 8 --beta 1.0 --disorder bimodal --disorder-seed 3",
    ),
    Described(
        "sherrington-kirkpatrick", ("--num-sites", "--beta"), ("--disorder-seed",),
        "sherrington-kirkpatrick --num-sites 20 --beta 0.5",
    ),
    Described("pairwise", ("FILE",), (), "pairwise couplings.npz"),
    Described("rbm", ("FILE",), (), "rbm weights.npz"),
    Described("bqm", ("FILE",), ("--beta",), "problem.bqm --beta 2"),
    Described("dqm", ("FILE",), ("--beta",), "problem.dqm"),
    Described("coo", ("FILE",), ("--beta",), "problem.coo"),
    Described("qubo", ("FILE",), ("--beta",), "problem.qubo"),
    Described("gset", ("FILE",), GRAPH, "gset G1 --beta 0.5"),
    Described("dimacs", ("FILE",), GRAPH, "graph.dimacs --as colouring --num-values 3"),
    Described("cnf", ("FILE",), ("--beta",), "formula.cnf"),
    Described("wcnf", ("FILE",), ("--beta",), "formula.wcnf --beta 2"),
    Described("bif", ("FILE",), (), "alarm.bif --given smoking=yes"),
    Described("uai", ("FILE",), (), "network.uai"),
    Described("fasta", ("FILE",), (), "family.fasta"),
    Described("dca", ("FILE",), (), "dca parameters.dat"),
    Described(
        "your own", ("--num-sites", "--num-values"), ("--side", "--boundary"),
        "density.py:log_density --num-sites 12 --num-values 3",
    ),
)  # fmt: skip


def targets(printing: PrintOptions) -> int:
    printer = Printer(printing)
    table = Table(title="What can be sampled from", title_justify="left")
    for name in ("target", "needs", "may have", "for example"):
        table.add_column(name)
    for found in TARGETS:
        table.add_row(found.name, " ".join(found.needs), " ".join(found.may_have), found.example)
    printer.show(table)
    printer.data({"targets": [asdict(found) for found in TARGETS]})
    return FINE
