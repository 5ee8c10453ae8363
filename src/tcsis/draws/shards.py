"""More draws than memory should hold, made in shards, by any number of processes.

    PATH.shards/plan.json     what is drawn, and which process leads
    PATH.shards/000000.nc     the first shard, ``plan.size`` draws from a seed of its own
    PATH.shards/done-1        a process that helped has nothing more to do
    PATH                      all of them, once the last is there; then the shards are removed

A shard is whole or not there, and depends on nothing but the plan and its number: whatever ends a
process, the next goes on from the shards that it left, and the draws are the same in the end.
Process r of R makes shards r, r + R, ...; they meet in the folder and nowhere else.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tcsis.basics.checks import check_integer, check_seed, derive_seed
from tcsis.basics.files import write_whole
from tcsis.basics.launch import Rank, this_rank
from tcsis.basics.locks import find_writer, sole_writer
from tcsis.basics.progress import progress_bar
from tcsis.basics.seals import digest, open_json, seal_json
from tcsis.basics.threads import at_most
from tcsis.draws import Draws
from tcsis.draws.joining import join
from tcsis.draws.storage import Attribute, read_attributes, write_draws
from tcsis.targets.base import Target

MOST_AT_ONCE = 2**16
"""Draws of one shard, or of a request that needs none."""
MOST_TOKENS, LEAST_AT_ONCE = 2**24, 2**10
"""Where states are large, shards are of fewer draws."""
DIGEST, SHARD = "plan_sha256", "shard"
"""The attributes by which a shard, or all of them as one, are known again."""
PATIENCE, TIMES, PAUSE = 300.0, 10.0, 0.1
"""Seconds without a new shard after which other processes are given up, at least; how many times
what a shard takes; and how often they are looked for."""

Draw = Callable[[int, int], Draws]
"""So many draws from this seed."""
Show = Callable[..., None]


class StalledError(ValueError):
    """Other processes do not do their part."""


@dataclass(frozen=True)
class Plan:
    """``n`` draws from a ``seed`` in shards of ``size``; ``key`` tells model and settings from
    others."""

    n: int
    seed: int
    size: int
    key: str

    def __post_init__(self) -> None:
        check_integer("n", self.n)
        check_integer("size", self.size)
        check_seed(self.seed)

    @property
    def num_shards(self) -> int:
        return -(-self.n // self.size)

    def length(self, shard: int) -> int:
        return min(self.size, self.n - shard * self.size)

    def seed_of(self, shard: int) -> int:
        return derive_seed(self.seed, f"shard {shard}")

    @property
    def digest(self) -> str:
        return digest(json.dumps(asdict(self), sort_keys=True).encode())


def shard_size(num_sites: int) -> int:
    """As many draws as are made at once of a target of so many sites, a power of two."""
    size = MOST_AT_ONCE
    while size > LEAST_AT_ONCE and size * num_sites > MOST_TOKENS:
        size //= 2
    return size


def shards_of(path: Path) -> Path:
    """The folder of the shards of a file."""
    return path.with_name(f"{path.name}.shards")


def count_shards(path: Path) -> int:
    """How many shards of a file there are."""
    return len(list(shards_of(path).glob("*.nc")))


def name(shard: int) -> str:
    return f"{shard:06}.nc"


def done(rank: int | str) -> str:
    return f"done-{rank}"


@dataclass(frozen=True)
class Shards:
    """Draws of a target by a plan, in a file that has the attributes ``attrs`` besides."""

    draw: Draw
    target: Target
    plan: Plan
    attrs: Mapping[str, Attribute] = field(default_factory=dict)
    rank: Rank = field(default_factory=this_rank)

    def write(self, path: Path, *, progress: bool = True) -> None:
        """Do this process's part of a file; the first process returns when the file is there."""
        if self.rank.leads:
            self.lead(path, progress)
        else:
            self.help_with([path])

    def lead(self, path: Path, progress: bool) -> None:
        """Make the shards of the first process, wait for those of others, and join all."""
        if path.is_dir():
            raise ValueError(f"{path} is a folder: expected the file to write the draws to")
        folder = shards_of(path)
        with sole_writer(folder), progress_bar("drawing", self.plan.n, progress) as show:
            begin(folder, self.plan)
            if not self.is_at(path):
                longest = self.make(folder, show)
                await_all(folder, self.plan, max(PATIENCE, TIMES * longest), show)
                for shard in range(self.plan.num_shards):  # again, if one was damaged since
                    self.ensure(folder, shard)
                parts = [folder / name(shard) for shard in range(self.plan.num_shards)]
                join(parts, path, self.target, {**self.attrs, DIGEST: self.plan.digest})
            await_helpers(folder, self.rank)
            shutil.rmtree(folder)

    def help_with(self, paths: Sequence[Path]) -> None:
        """Make the shards of another process, for that of the paths where the first one leads."""
        path = find_led(paths, self.plan)
        if not self.is_at(path):
            self.make(shards_of(path), lambda *_: None)
        (shards_of(path) / done(self.rank.number)).touch()  # after which the folder may go

    def make(self, folder: Path, show: Show) -> float:
        """Shards r, r + R, ... that are not there; returns the most seconds one took."""
        longest = 0.0
        for shard in range(self.rank.number, self.plan.num_shards, self.rank.world):
            begun = time.monotonic()
            self.ensure(folder, shard)
            longest = max(longest, time.monotonic() - begun)
            show(num_made(folder, self.plan))
        return longest

    def ensure(self, folder: Path, shard: int) -> None:
        """Make a shard, if it is not there and whole.  On one thread: sums on several may differ in
        their last digit, and the draws with them."""
        path = folder / name(shard)
        if self.is_at(path, shard):
            return
        with at_most(1):
            draws = self.draw(self.plan.length(shard), self.plan.seed_of(shard))
        write_draws(path, draws, self.target, {DIGEST: self.plan.digest, SHARD: shard})

    def is_at(self, path: Path, shard: int | None = None) -> bool:
        """Whether a shard, or the file of all, is there and whole."""
        try:
            attrs = read_attributes(path)
        except ValueError:  # not there, or damaged
            return False
        return (attrs.get(DIGEST), attrs.get(SHARD)) == (self.plan.digest, shard)


# -- meeting in the folder -----------------------------------------------------------------------


def begin(folder: Path, plan: Plan) -> None:
    """Say what is drawn and who leads, to helpers and to whoever goes on."""
    kept = read_plan(folder)
    if kept is not None and kept["plan"] != plan.digest:
        raise ValueError(
            f"{folder} has shards of other draws: expected the same model, seed, number and "
            "settings; remove it, or write elsewhere"
        )
    for old in (*folder.glob(done("*")), *folder.glob(".tmp-*")):
        old.unlink()
    said = {"plan": plan.digest, "leader": find_writer(folder)}
    write_whole(folder / "plan.json", seal_json(json.dumps(said, indent=1) + "\n"))


def read_plan(folder: Path) -> dict[str, str | None] | None:
    """What the folder says of its shards; a plan that was damaged is none, for the shards have
    their own word for it."""
    path = folder / "plan.json"
    try:
        said = json.loads(open_json(path, path.read_bytes()))
    except (FileNotFoundError, ValueError):
        return None
    return {"plan": said["plan"], "leader": said["leader"]}


def find_led(paths: Sequence[Path], plan: Plan) -> Path:
    """The path whose shards a living process leads, which may still have to begin."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        for path in paths:
            leader = find_writer(shards_of(path))
            if leader is not None and read_plan(shards_of(path)) == {
                "plan": plan.digest,
                "leader": leader,
            }:
                return path
        time.sleep(PAUSE)
    raise StalledError(
        f"nobody leads at {paths[0]}, for {PATIENCE:.0f} s: expected a process of rank 0 with the "
        "same command"
    )


def num_made(folder: Path, plan: Plan) -> int:
    """Draws of the shards that are there."""
    there = {path.name for path in folder.glob("*.nc")}
    return sum(plan.length(k) for k in range(plan.num_shards) if name(k) in there)


def await_all(folder: Path, plan: Plan, patience: float, show: Show) -> None:
    """Wait for the shards of other processes, as long as new ones come."""
    made, since = num_made(folder, plan), time.monotonic()
    while made < plan.n:
        if time.monotonic() - since > patience:
            raise StalledError(
                f"{plan.n - made:,} of {plan.n:,} draws are missing and none came for "
                f"{patience:.0f} s: the other processes have ended or are stuck; what is there is "
                "kept, for the same request to go on from"
            )
        time.sleep(PAUSE)
        if (now := num_made(folder, plan)) > made:
            made, since = now, time.monotonic()
            show(made)


def await_helpers(folder: Path, rank: Rank) -> None:
    """Wait until every other process knows that it is not needed, or has had time to."""
    until = time.monotonic() + PATIENCE
    others = [folder / done(number) for number in range(1, rank.world)]
    while time.monotonic() < until and not all(path.exists() for path in others):
        time.sleep(PAUSE)
