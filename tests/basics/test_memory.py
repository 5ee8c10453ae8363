"""What does not fit into memory is refused, with what would."""

from pathlib import Path

import pytest

import tcsis
from tcsis.basics import memory
from tcsis.targets import Ising, Potts, SherringtonKirkpatrick, SpinGlass


def test_what_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 10**7 < memory.free_memory() < 10**15
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9000 kB\nMemAvailable:   5000 kB\nSwapFree: 1000 kB\n")
    monkeypatch.setattr(memory, "MEMINFO", meminfo)
    monkeypatch.setattr(memory, "GROUP", tmp_path)
    assert memory.free_memory() == 6_000 * 1024
    (tmp_path / "memory.max").write_text("3000000\n")
    (tmp_path / "memory.current").write_text("1000000\n")
    assert memory.free_memory() == 2_000_000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.free_memory() == 6_000 * 1024
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "nothing")
    assert memory.free_memory() > 10**7  # all that is built in


def test_the_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: 5_000_000)
    assert memory.check_fits("n", 500, 10_000) == 500
    words = "n is 501: that takes about 5.01 MB of memory, and 5 MB are free; at most 500 draws fit"
    with pytest.raises(ValueError, match=words):
        memory.check_fits("n", 501, 10_000, " draws")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Ising(10**6, 0.4), lambda: Ising((10**5, 10**5, 10**5), 0.4),
        lambda: Potts(10**5, 255, 1.0), lambda: SpinGlass(10**9, 1.0),
        lambda: SherringtonKirkpatrick(10**7, 1.0),
    ],
)  # fmt: skip
def test_targets(make) -> None:
    with pytest.raises(ValueError, match=r"the number of (sites|pairs) is \d+: that takes about"):
        make()


def test_draws() -> None:
    target = Ising(3, 0.4)
    with pytest.raises(ValueError, match=r"n is 10{15}: .* at most [\d,]+ of 9 sites fit"):
        tcsis.exact.draw(target, 10**15)
    with pytest.raises(ValueError, match=r"num_chains times the draws kept is 10{15}: .* draws of"):
        tcsis.mcmc.sample(target, num_chains=10**9, num_steps=10**6, progress=False)
    model = tcsis.train(target, preset="tiny", steps=1, progress=False)
    with pytest.raises(ValueError, match=r"n is 10{15}: .* at most [\d,]+ draws of 9 sites fit"):
        model.sample(10**15)


@pytest.mark.parametrize("seed", [-1, 2**64, True, "1", 0.5])
def test_seeds(seed) -> None:
    with pytest.raises(ValueError, match=r"seed is .*: expected"):
        tcsis.exact.draw(Ising(3, 0.4), 3, seed=seed)
    assert tcsis.exact.draw(Ising(3, 0.4), 3, seed=2**64 - 1).x.shape == (3, 9)
