"""Rows of the benchmark, as markdown and for the terminal, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from tcsis.app.bench.autocorrelation import off
from tcsis.app.bench.cells import Cell
from tcsis.app.bench.fits import Fit, crossing, fit
from tcsis.app.bench.plan import Family, Plan, Result, Task

Cells = Mapping[Task, Cell]
AMOUNTS = (10**4, 10**5, 10**6, 10**7)
SCALE = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


@dataclass(frozen=True)
class Row:
    """A method on a target, by its result."""

    task: Task
    result: Result


def make_rows(plan: Plan, cells: Cells) -> list[Row]:
    """In the order of the plan, leaving out what has no cell."""
    found = {task.name: cell.result for task, cell in cells.items()}
    order = [
        (family, side, method)
        for family in plan.families
        for side in family.sides
        for method in plan.methods
    ]
    tasks = {(task.family, task.side, task.method): task for task in plan.tasks()}
    named = [tasks[place] for place in order if place in tasks]
    return [Row(task, found[task.name]) for task in named if task.name in found]


# -- as text -------------------------------------------------------------------------------------

HEADS = (
    "target", "side", "method", "cost of an independent draw", "density calls", "±",
    "draws for one", "by", "training", "off by", "why not",
)  # fmt: skip
TERMINAL = ("side", "method", "cost of an independent draw", "density calls", "training", "why not")
NUMBERS = (1, 3, 4, 5, 6, 8, 9)


def entries(row: Row) -> list[str]:
    """A row as it is shown, under ``HEADS``.  Lower bounds begin with ">"."""
    task, result = row.task, row.result
    bound = "> " if result.refused else ""
    error = result.relative_error
    return [
        task.family.title, str(task.side), task.method.title,
        bound + seconds(result.cost), bound_or_dash(bound, result.density_cost),
        "–" if error is None else spelled(error), f"{bound}{result.draw:.3g}", result.detail,
        training(result) if task.method.learned else "–",
        off_by(result), result.refused or "",
    ]  # fmt: skip


def spelled(error: float) -> str:
    """Of an error as a share, 3%, and what is less than one."""
    return f"{error:.0%}" if error >= 0.01 else "< 1%"


def training(result: Result) -> str:
    """Seconds and density calls."""
    return f"{result.training_seconds:.0f} s, {result.training_densities:.2g} calls"


def seconds(value: float) -> str:
    """1.23 µs."""
    unit, name = next((pair for pair in SCALE if value >= pair[0]), SCALE[-1])
    return f"{value / unit:.3g} {name}"


def bound_or_dash(bound: str, value: float | None) -> str:
    return (
        "–" if value is None else f"{bound}{value:,.3g}" if value < 1e4 else f"{bound}{value:.2g}"
    )


def off_by(result: Result) -> str:
    """|energy - exact| in standard errors."""
    if result.exact_energy is None or result.energy_error is None:
        return "–"
    return f"{off(result.energy, result.energy_error, result.exact_energy):.1f}"


def as_markdown(
    heads: Sequence[str], lines: Sequence[Sequence[str]], numbers: Sequence[int]
) -> str:
    rule = ["---:" if place in numbers else "---" for place in range(len(heads))]
    return "".join(f"| {' | '.join(line)} |\n" for line in (heads, rule, *lines))


def rows_as_markdown(rows: Sequence[Row]) -> str:
    return as_markdown(HEADS, [entries(row) for row in rows], NUMBERS)


def as_tables(rows: Sequence[Row]) -> list[Table]:
    """For the terminal, a table for every family."""
    tables: dict[str, Table] = {}
    for row in rows:
        title = row.task.family.title
        if title not in tables:
            tables[title] = Table(title=title, title_justify="left")
            for head in TERMINAL:
                tables[title].add_column(head, no_wrap=head == "method")
        shown = dict(zip(HEADS, entries(row), strict=True))
        tables[title].add_row(*(shown[head] for head in TERMINAL))
    return list(tables.values())


# -- how costs grow ------------------------------------------------------------------------------


def points(rows: Sequence[Row], family: Family, method: str) -> list[Row]:
    """The rows of one line, by side."""
    own = [r for r in rows if r.task.family == family and r.task.method.name == method]
    return sorted(own, key=lambda row: row.task.side)


def fit_line(rows: Sequence[Row], cost: Callable[[Result], float | None]) -> Fit | None:
    """The law of those that are not refused."""
    good = [row for row in rows if not row.result.refused]
    known = [(row, value) for row in good if (value := cost(row.result)) is not None]
    return fit(
        [row.task.side for row, _ in known], [value for _, value in known],
        [row.result.relative_error for row, _ in known],
    )  # fmt: skip


def fits_as_markdown(plan: Plan, rows: Sequence[Row]) -> str:
    lines = []
    for family in plan.families:
        for method in plan.methods:
            own = points(rows, family, method.name)
            found = [fit_line(own, cost) for cost in (cost_of, density_cost_of)]
            if found[0] is not None:
                good = [str(row.task.side) for row in own if not row.result.refused]
                laws = ["–" if law is None else str(law) for law in found]
                lines.append([family.title, method.title, ", ".join(good), *laws])
    if not lines:
        return "No method has three sides with an estimate.\n"
    return as_markdown(("target", "method", "sides", "seconds", "density calls"), lines, ())


def cost_of(result: Result) -> float | None:
    return result.cost


def density_cost_of(result: Result) -> float | None:
    return result.density_cost


# -- when to learn -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """One target: the cheapest ``other`` method that is believed, the trained sampler that pays
    soonest, or else draws most cheaply, and the refused method with the lowest bound, where it may
    be cheaper than the other one.  None where there is none."""

    family: Family
    side: int
    learned: Row | None
    other: Row | None
    refused: Row | None

    @property
    def draws(self) -> float | None:
        """From how many draws on training pays against the other method."""
        return pays(self.learned, self.other)

    @property
    def most(self) -> float | None:
        """The same at most, if the refused method costs no more than it must."""
        return pays(self.learned, self.refused)

    @property
    def dearer(self) -> str | None:
        """Than what a trained sampler is, however many draws are made."""
        if self.learned is None or self.other is None or self.draws is not None:
            return None
        return f"dearer than {self.other.task.method.title} at every n"

    @property
    def sentence(self) -> str:
        if self.dearer:
            return f"training never pays: {self.dearer}"
        known = self.draws is not None or self.most is not None
        return f"training pays from {self.says}" if known else self.says

    @property
    def says(self) -> str:
        """From where on training pays."""
        if self.learned is None:
            return "no trained sampler is believed"
        if self.dearer:
            return f"never: {self.dearer}"
        if self.refused is None:
            return f"{count(self.draws)} draws"
        if self.most is not None:
            least = "at most" if self.draws is None else f"{count(self.draws)} to"
            return f"{least} {count(self.most)} draws"
        unknown = f"the cost of {self.refused.task.method.title} is not known"
        return unknown if self.draws is None else f"{count(self.draws)} draws, but {unknown}"


def count(draws: float | None) -> str:
    """Two digits."""
    assert draws is not None
    return f"{float(f'{draws:.2g}'):,.0f}"


def choices(plan: Plan, rows: Sequence[Row]) -> list[Choice]:
    """One for every target that has both a trained sampler and another."""
    found = []
    for family in plan.families:
        for side in family.sides:
            own = [r for r in rows if (r.task.family, r.task.side) == (family, side)]
            if len({row.task.method.learned for row in own}) == 2:
                found.append(choose(family, side, own))
    return found


def choose(family: Family, side: int, rows: Sequence[Row]) -> Choice:
    others = [row for row in rows if not row.task.method.learned]
    other = cheapest([row for row in others if not row.result.refused])
    refused = cheapest([row for row in others if row.result.refused])
    if refused and other and other.result.cost <= refused.result.cost:
        refused = None
    good = [row for row in rows if row.task.method.learned and not row.result.refused]
    paying = [(draws, row) for row in good if (draws := pays(row, other)) is not None]
    learned = min(paying, key=lambda pair: pair[0])[1] if paying else cheapest(good)
    return Choice(family, side, learned, other, refused)


def cheapest(rows: Sequence[Row]) -> Row | None:
    return min(rows, key=lambda row: row.result.cost, default=None)


def pays(learned: Row | None, other: Row | None) -> float | None:
    """The number of draws from which on training pays; None where it does not, or where one of both
    is missing."""
    if learned is None or other is None:
        return None
    result = learned.result
    return crossing(result.training_seconds, result.cost, other.result.cost)


def amortised(result: Result, draws: float) -> float:
    """Seconds of one core for a draw, if so many are made."""
    return result.training_seconds / draws + result.cost


def choices_as_markdown(found: Sequence[Choice]) -> str:
    heads = (
        "target", "side", "cheapest without training", "its draw", "cheapest trained", "its draw",
        "training", *(f"a draw of 10^{len(str(n)) - 1}" for n in AMOUNTS), "training pays from",
    )  # fmt: skip
    lines = []
    for choice in found:
        other, learned = choice.other or choice.refused, choice.learned
        assert other is not None
        bound = "> " if other.result.refused else ""
        line = [choice.family.title, str(choice.side), other.task.method.title]
        line.append(bound + seconds(other.result.cost))
        if learned is None:
            line += ["–"] * (3 + len(AMOUNTS))
        else:
            result = learned.result
            line += [learned.task.method.title, seconds(result.cost)]
            line.append(f"{result.training_seconds:.0f} s")
            line += [seconds(amortised(result, n)) for n in AMOUNTS]
        lines.append([*line, choice.says])
    return as_markdown(heads, lines, (1, 3, *range(5, 7 + len(AMOUNTS))))
