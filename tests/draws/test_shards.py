"""Shards: the same draws however they were come by, in the memory of one shard."""

import os
import signal
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import h5py
import pytest
import torch
import xarray

import tcsis
from tcsis.basics import seals
from tcsis.basics.launch import Rank, this_rank
from tcsis.draws import Draws, joining, shards
from tcsis.draws.shards import Plan, Shards, StalledError, shard_size, shards_of
from tcsis.draws.storage import read_attributes, read_draws, read_weights
from tcsis.targets import Ising

TARGET = Ising(3, 0.4)
PLAN = Plan(n=2_300, seed=7, size=500, key="a model")
ALONE = Rank()


def draw(n: int, seed: int) -> Draws:
    """Coins with random weights, in place of a model."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(2, (n, 9), generator=generator).to(torch.uint8)
    log_weight = torch.randn(n, generator=generator, dtype=torch.float64)
    return Draws(x, log_weight, 1.0, n, 2 * n).signed(TARGET)


def request(plan: Plan = PLAN, rank: Rank = ALONE, draw=draw) -> Shards:
    return Shards(draw, TARGET, plan, {"method": "coins"}, rank)


def written(path: Path) -> Draws:
    return read_draws(path)[0]


def same(a: Draws, b: Draws) -> bool:
    assert a.log_weight is not None and b.log_weight is not None
    return torch.equal(a.x, b.x) and torch.equal(a.log_weight, b.log_weight)


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Draws:
    """What one process writes that nothing happens to."""
    path = tmp_path_factory.mktemp("whole") / "draws.nc"
    request().write(path, progress=False)
    assert list(path.parent.iterdir()) == [path]
    return written(path)


def test_shards_are_joined_in_their_order(whole: Draws) -> None:
    """n is no multiple of the size; each shard has a seed of its own."""
    parts = [draw(PLAN.length(k), PLAN.seed_of(k)) for k in range(PLAN.num_shards)]
    assert [len(part) for part in parts] == [500, 500, 500, 500, 300]
    assert same(whole, tcsis.concatenate(parts))
    assert len(whole.x.unique(dim=0)) > 480  # of 512: no seed came twice
    costs = (whole.seconds, whole.num_density_calls, whole.num_network_calls)
    assert costs == (5.0, 2_300, 4_600)
    assert whole.fingerprint is not None
    assert whole.fingerprint.contradiction(TARGET, up_to_constant=False) is None


def test_the_first_draws_and_the_weights_of_all(tmp_path: Path, whole: Draws) -> None:
    path = tmp_path / "draws.nc"
    request().write(path, progress=False)
    assert same(read_draws(path, 700)[0], whole[:700])
    weights = read_weights(path)
    assert weights.x.shape == (2_300, 0)
    assert weights.log_z == whole.log_z
    assert read_attributes(path)["method"] == "coins"
    assert same(tcsis.load_draws(path, TARGET), whole)


def test_xarray_opens_them_lazily(tmp_path: Path) -> None:
    """A few states take the memory of a chunk, and nothing that of all."""
    plan, path = Plan(100_000, 1, 2**15, "many"), tmp_path / "draws.nc"
    target, zeros = Ising(20, 0.4), torch.zeros(2**15, 400, dtype=torch.uint8)
    Shards(lambda n, _: Draws(zeros[:n]), target, plan).write(path, progress=False)
    with xarray.open_datatree(path, engine="h5netcdf") as tree:
        tree["posterior/x"][0, :10].load()  # what is imported and kept
    tracemalloc.start()
    try:
        with xarray.open_datatree(path, engine="h5netcdf") as tree:
            x = tree["posterior/x"]
            assert x.shape == (1, 100_000, 400)
            assert x[0, 99_000:99_010].values.sum() == 0
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    with h5py.File(path) as file:
        assert file["posterior/x"].chunks == (1, 2**11, 400)
    assert most < 3_000_000  # of 40 MB; a chunk has 0.8


def test_memory_is_that_of_one_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "CHUNK", 2**14)
    monkeypatch.setattr(seals, "PIECE", 2**14)

    def most(n: int) -> int:
        tracemalloc.start()
        try:
            plan = Plan(n, 0, 4_000, f"{n}")
            request(plan).write(tmp_path / f"{n}.nc", progress=False)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    most(4_000)  # what is imported and kept
    few, many = most(16_000), most(80_000)
    assert many - few < 64_000 * 2  # of 25 bytes each: states, energies and weights


# -- interruptions ---------------------------------------------------------------------------------


def stopping_after(number: int):
    calls = []

    def stop(n: int, seed: int) -> Draws:
        calls.append(n)
        if len(calls) > number:
            raise KeyboardInterrupt
        return draw(n, seed)

    return stop


def test_it_goes_on_from_what_is_there(tmp_path: Path, whole: Draws) -> None:
    path = tmp_path / "draws.nc"
    with pytest.raises(KeyboardInterrupt):
        request(draw=stopping_after(2)).write(path, progress=False)
    assert shards.count_shards(path) == 2
    request(draw=stopping_after(3)).write(path, progress=False)  # 3 shards are left
    assert same(written(path), whole)
    assert not shards_of(path).exists()
    request(draw=stopping_after(0)).write(path, progress=False)  # all is there


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.draws.test_shards import draw, request

made = []
def dying(n, seed):
    made.append(n)
    if len(made) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return draw(n, seed)

request(draw=dying).write(Path(sys.argv[1]), progress=False)
"""


def test_nothing_is_lost_by_a_kill(tmp_path: Path, whole: Draws) -> None:
    path = tmp_path / "draws.nc"
    process = subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    assert process.returncode == -signal.SIGKILL
    assert shards.count_shards(path) == 3
    assert not path.exists()
    request(draw=stopping_after(2)).write(path, progress=False)
    assert same(written(path), whole)


@pytest.mark.parametrize("damage", ["overwritten", "cut", "of another plan"])
def test_a_damaged_shard_is_made_again(tmp_path: Path, whole: Draws, damage: str) -> None:
    path = tmp_path / "draws.nc"
    with pytest.raises(KeyboardInterrupt):
        request(draw=stopping_after(3)).write(path, progress=False)
    second = shards_of(path) / shards.name(1)
    content = second.read_bytes()
    if damage == "overwritten":
        second.write_bytes(content[:3_000] + bytes(200) + content[3_200:])
    elif damage == "cut":
        second.write_bytes(content[: len(content) // 2])
    else:
        second.write_bytes((shards_of(path) / shards.name(0)).read_bytes())
    request(draw=stopping_after(3)).write(path, progress=False)
    assert same(written(path), whole)


def test_other_draws_are_not_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "draws.nc"
    with pytest.raises(KeyboardInterrupt):
        request(draw=stopping_after(1)).write(path, progress=False)
    for other in (
        Plan(2_300, 8, 500, "a model"),
        Plan(2_400, 7, 500, "a model"),
        Plan(2_300, 7, 500, "another model"),
    ):
        with pytest.raises(ValueError, match="has shards of other draws: expected the same model"):
            request(other).write(path, progress=False)
    assert shards.count_shards(path) == 1


FULL = """
import resource, sys
from pathlib import Path
from tests.draws.test_shards import request
from tcsis.draws.shards import shards_of

path = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    request().write(path, progress=False)
except OSError as error:
    print(error)
"""


@pytest.mark.parametrize(("room", "left"), [(1_000, 0), (60_000, 5)])
def test_a_full_disk_is_told_and_costs_nothing(
    tmp_path: Path, whole: Draws, room: int, left: int
) -> None:
    """No room for a shard, and room for shards but not for all as one; HDF5 survives both."""
    path = tmp_path / "draws.nc"
    command = [sys.executable, "-c", FULL, str(path), str(room)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "cannot be written (File too large): make room on its disk" in run.stdout
    assert run.stderr == ""
    assert shards.count_shards(path) == left
    assert not list(tmp_path.rglob(".tmp-*"))
    request().write(path, progress=False)
    assert same(written(path), whole)


# -- several processes -----------------------------------------------------------------------------


def test_two_processes_give_what_one_gives(tmp_path: Path, whole: Draws) -> None:
    path, made = tmp_path / "draws.nc", []

    def counted(n: int, seed: int) -> Draws:
        made.append(seed)
        return draw(n, seed)

    helper = threading.Thread(target=request(rank=Rank(1, 2)).write, args=(path,))
    helper.start()
    request(rank=Rank(0, 2), draw=counted).write(path, progress=False)
    helper.join()
    assert same(written(path), whole)
    assert made == [PLAN.seed_of(shard) for shard in (0, 2, 4)]
    assert list(tmp_path.iterdir()) == [path]


def test_shards_that_do_not_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "draws.nc"
    monkeypatch.setattr(shards, "PATIENCE", 0.3)
    monkeypatch.setattr(shards, "TIMES", 0.0)
    with pytest.raises(StalledError, match="1,000 of 2,300 draws are missing and none came for"):
        request(rank=Rank(0, 2)).write(path, progress=False)
    assert shards.count_shards(path) == 3
    with pytest.raises(StalledError, match="nobody leads at"):
        request(rank=Rank(1, 2)).write(path)  # the plan that is left has no leader any more
    assert shards.count_shards(path) == 3
    request().write(path, progress=False)  # one process alone goes on


def test_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    assert this_rank() == Rank(0, 1)
    monkeypatch.setenv("RANK", "2")
    with pytest.raises(ValueError, match="RANK is 2 and WORLD_SIZE 1"):
        this_rank()
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert this_rank() == Rank(2, 4)
    monkeypatch.setenv("WORLD_SIZE", "many")
    with pytest.raises(ValueError, match="WORLD_SIZE is 'many': expected a number"):
        this_rank()


def test_shards_of_large_states_are_smaller() -> None:
    assert [shard_size(d) for d in (1, 100, 256, 257, 4_096, 10**9)] == [
        2**16, 2**16, 2**16, 2**15, 2**12, 2**10,
    ]  # fmt: skip


def test_a_model_writes_its_draws(tmp_path: Path) -> None:
    model = tcsis.train(TARGET, preset="tiny", steps=2, progress=False)
    path = tmp_path / "draws.nc"
    model.sample_to(path, 250, seed=3, size=100, progress=False)
    back = written(path)
    first = model.sample(100, seed=Plan(250, 3, 100, "").seed_of(0))
    assert torch.equal(back.x[:100], first.x)
    other = tcsis.train(TARGET, preset="tiny", steps=3, progress=False)
    assert model.digest() != other.digest()
    model.save(tmp_path / "model")
    assert tcsis.load(tmp_path / "model").digest() == model.digest()


def test_what_cannot_be_written_is_refused_before_draws_are_made(tmp_path: Path) -> None:
    model = tcsis.train(TARGET, preset="tiny", steps=2, progress=False)
    with pytest.raises(ValueError, match="size is 0"):
        model.sample_to(tmp_path / "draws.nc", 250, size=0, progress=False)
    with pytest.raises(ValueError, match="is a folder: expected the file"):
        model.sample_to(tmp_path, 250, progress=False)
    assert not list(tmp_path.iterdir())
    assert not tmp_path.with_name(f"{tmp_path.name}.shards").exists()
