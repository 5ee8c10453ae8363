"""Bad command lines, configs, densities and checkpoints: the right exit code and one clear line."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tcsis.basics.seals import seal_toml

ISING = ["ising", "--side", "4", "--beta", "0.4"]
OWN = ["--num-sites", "4", "--num-values", "3"]
TINY = ["--preset", "tiny", "--steps", "2", "--n", "50"]

LINES = {
    "no such command": (["nonsense"], "No such command"),
    "no such option": (["train", "--nonsense"], "No such option"),
    "no target": (["exact"], "target is missing"),
    "unknown target": (["exact", "isnig"], "did you mean ising?"),
    "missing arguments": (["exact", "ising"], "side, beta"),
    "missing beta": (["exact", "ising", "--side", "4"], "beta"),
    "side not a number": (["exact", "ising", "--side", "four", "--beta", "1"], "side is 'four'"),
    "side of one": (["exact", "ising", "--side", "1", "--beta", "1"], "at least 2"),
    "negative side": (["exact", "ising", "--side", "-4", "--beta", "1"], "at least 2"),
    "half a box": (["exact", "ising", "--side", "4x", "--beta", "1"], "side is '4x'"),
    "beta nan": (["exact", "ising", "--side", "4", "--beta", "nan"], "beta"),
    "beta infinite": (["exact", "ising", "--side", "4", "--beta", "inf"], "beta"),
    "beta not a number": (["exact", "ising", "--side", "4", "--beta", "cold"], "'--beta'"),
    "argument of another target": (["exact", *ISING, "--num-values", "3"], "num_values"),
    "potts without values": (["exact", "potts", "--side", "3", "--beta", "1"], "num_values"),
    "one value": (
        ["exact", "potts", "--side", "3", "--beta", "1", "--num-values", "1"], "at least 2"
    ),
    "too many values": (
        ["exact", "potts", "--side", "3", "--beta", "1", "--num-values", "300"], "at most 255"
    ),
    "boundary": (["exact", *ISING, "--boundary", "twisted"], "periodic, open"),
    "disorder": (
        ["exact", "spin-glass", "--side", "3", "--beta", "1", "--disorder", "cubic"], "bimodal"
    ),
    "one site": (
        ["exact", "sherrington-kirkpatrick", "--num-sites", "1", "--beta", "1"], "at least 2"
    ),
    "too large": (
        ["exact", "ising", "--side", "20", "--beta", "1", "--field", "1"], "too large"
    ),
    "too large to draw": (
        ["exact", "ising", "--side", "20", "--beta=-1", "--out", "new"], "too large"
    ),
    "file missing": (["exact", "pairwise"], "missing argument"),
    "no such file": (["exact", "pairwise", "nothing.npz"], "is not a file"),
    "not JSON": (["exact", "pairwise", "broken.json"], "not valid JSON"),
    "not an archive": (["exact", "pairwise", "broken.npz"], "cannot be read"),
    "extension": (["exact", "pairwise", "couplings.txt"], "expected .npz or .json"),
    "nan couplings": (["exact", "pairwise", "nan.npz"], "expected finite numbers"),
    "keys of a pairwise file": (["exact", "pairwise", "keys.json"], "expected edges"),
    "keys of an RBM": (["exact", "rbm", "keys.json"], "weights"),
    "shapes of an RBM": (["exact", "rbm", "shapes.json"], "visible_bias has shape"),
    "ragged weights": (["exact", "rbm", "ragged.json"], "not an array of numbers"),
    "method": (["train", *ISING, "--method", "biased"], "run.method"),
    "preset": (["train", *ISING, "--preset", "slow"], "'fast', 'paper' or 'tiny'"),
    "schedule": (["train", *ISING, "--schedule", "sequential"], "No such option"),
    "a method that is no more": (["compare", *ISING, "--methods", "tcsis"], "autoregressive"),
    "no steps": (["train", *ISING, "--steps", "0"], "num_steps"),
    "no time": (["train", *ISING, "--time-budget", "0"], "time_budget"),
    "no draws": (["train", *ISING, "--n", "0"], "run.n"),
    "device": (["train", *ISING, "--device", "moon"], "device is 'moon'"),
    "dtype": (["train", *ISING, "--dtype", "float16"], "run.dtype"),
    "threads": (["train", *ISING, "--threads", "0"], "run.threads"),
    "seed": (["train", *ISING, "--seed", "one"], "'--seed'"),
    "negative seed": (["train", *ISING, "--seed", "-1"], "run.seed"),
    "seed beyond 64 bits": (["mcmc", *ISING, "--seed", str(2**64)], "18446744073709551615"),
    "seed of a glass": (
        ["exact", "spin-glass", "--side", "3", "--beta", "1", "--disorder-seed", str(2**64)],
        "seed is 18446744073709551616: expected at most",
    ),
    "more threads than cores": (["train", *ISING, "--threads", "100000"], "cores; expected"),
    "more draws than memory": (
        ["train", *ISING, "--n", "1000000000000000"], "draws of 16 sites fit"
    ),
    "more exact draws": (
        ["exact", *ISING, "--n", "1000000000000000", "--out", "new"], "draws of 16 sites fit"
    ),
    "more compared draws": (
        ["compare", *ISING, "--methods", "exact", "--n", "1000000000000000"], "16 sites fit"
    ),
    "more draws than integers": (["train", *ISING, "--n", "1" + "0" * 30], "16 sites fit"),
    "more sites than memory": (
        ["train", "ising", "--side", "1000000", "--beta", "1"], "the number of sites is 10000000000"
    ),
    "a box that does not fit": (
        ["exact", "ising", "--side", "10000x10000x10000", "--beta", "1"], "of memory, and"
    ),
    "more pairs than memory": (
        ["mcmc", "sherrington-kirkpatrick", "--num-sites", "100000000", "--beta", "1"],
        "the number of pairs is",
    ),
    "a function of more sites": (
        ["mcmc", "good.py:density", "--num-sites", "1000000000000", "--num-values", "2"],
        "of memory, and",
    ),
    "more chains than memory": (["mcmc", *ISING, "--chains", "1000000000000"], "of 16 sites fit"),
    "more kept steps than memory": (
        ["mcmc", *ISING, "--steps", "1000000000000"], "chains times the steps that are kept"
    ),
    "a buffer that does not fit": (
        ["train", *ISING, "--set", "train.buffer.size=1000000000000"], "train.buffer.size is"
    ),
    "a batch that does not fit": (
        ["train", *ISING, "--set", "train.optimisation.batch_size=1000000000000"], "batch_size is"
    ),
    "sizes in a file": (["train", "--config", "large.toml"], "draws of 16 sites fit"),
    "sizes by assignment": (["train", *ISING, "--set", "run.threads=100000"], "cores; expected"),
    "a function that a file names": (
        ["exact", "--config", "function.toml"], "was not made here, and its config runs the code"
    ),
    "set without a value": (["train", *ISING, "--set", "train"], "section.key=value"),
    "set without a section": (["train", *ISING, "--set", "steps=3"], "section.key=value"),
    "set an unknown section": (["train", *ISING, "--set", "a.b=3"], "unknown section [a]"),
    "set an unknown setting": (
        ["train", *ISING, "--set", "train.a=3"],
        "train has no setting 'a': expected method, buffer",
    ),
    "set an unknown option": (
        ["train", *ISING, "--set", "run.a=3"],
        "run has no setting 'a': expected command, seed",
    ),
    "set a bad value": (
        ["train", *ISING, "--set", "train.optimisation.learning_rate=-1"], "learning_rate"
    ),
    "set a table to a number": (
        ["train", *ISING, "--set", "train.optimisation=3"], "train.optimisation is wrong"
    ),
    "set the target's argument": (["train", *ISING, "--set", "target.a=3"], "'a'"),
    "no config": (["train", "--config", "nothing.toml"], "cannot be read"),
    "broken config": (["train", "--config", "broken.toml"], "not TOML"),
    "binary config": (["train", "--config", "broken.npz"], "not TOML"),
    "unknown section": (["train", "--config", "section.toml"], "unknown section [tarin]"),
    "section not a table": (["train", "--config", "flat.toml"], "expected a table"),
    "config without a target": (["train", "--config", "empty.toml"], "target is missing"),
    "config of another command": (
        ["mcmc", "--config", "run/config.toml"],
        "config is one of tcsis train: expected one of tcsis mcmc",
    ),
    "config of another command, with its sections": (
        ["mcmc", "--config", "whole.toml"],
        "config is one of tcsis train: expected one of tcsis mcmc",
    ),
    "config of a comparison for training": (
        ["train", "--config", "compare.toml"],
        "config is one of tcsis compare: expected one of tcsis train",
    ),
    "section of another command": (
        ["mcmc", *ISING, "--set", "train.num_steps=3"],
        "unknown section [train]: tcsis mcmc has target, run, mcmc",
    ),
    "section in a file": (
        ["exact", "--config", "chains.toml"],
        "unknown section [mcmc]: tcsis exact has target, run",
    ),
    "draws of chains": (
        ["mcmc", *ISING, "--set", "run.n=100"],
        "run has no setting 'n': expected command, seed, device, dtype, threads",
    ),
    "preset of exact draws": (
        ["exact", *ISING, "--set", "run.preset=tiny"],
        "run has no setting 'preset': expected command, seed, device, dtype, threads, n",
    ),
    "method of a comparison": (
        ["compare", *ISING, "--set", "run.method=unbiased"], "run has no setting 'method'"
    ),
    "setting of another method": (
        ["train", *ISING, "--set", "train.method.depth=3"],
        "config: train.method (autoregressive) has no setting 'depth': expected kind, width, "
        "objective, symmetric",
    ),
    "two methods": (
        ["train", *ISING, "--method", "self-normalized", "--set",
         "train.method.kind=autoregressive"],
        "train.method.kind is 'autoregressive': expected self-normalized",
    ),
    "training without a learned method": (
        ["compare", *ISING, "--methods", "gibbs", "--steps", "3"], "leave out steps"
    ),
    "max-error of zero": (["train", *ISING, "--max-error", "0"], "above 0"),
    "min-ess above one": (["train", *ISING, "--min-ess", "2"], "at most 1"),
    "require a level that is none": (
        ["train", *ISING, "--require", "good"],
        "expected 'trusted', 'trusted-by-weight' or 'unrefuted'",
    ),
    "resume nothing": (["train", "--resume"], "resume needs --out"),
    "resume a folder without a run": (["train", "--resume", "--out", "full"], "no config.toml"),
    "resume and overwrite": (
        ["train", *ISING, "--resume", "--overwrite", "--out", "run"], "exclude each other"
    ),
    "resume and config": (
        ["train", "--resume", "--out", "run", "--config", "empty.toml"], "exclude each other"
    ),
    "overwrite nothing": (["train", *ISING, "--overwrite"], "overwrite needs --out"),
    "folder not empty": (["train", *ISING, "--out", "full"], "is not empty"),
    "folder is a file": (["train", *ISING, "--out", "empty.toml"], "is a file"),
    "overwrite what is not a run": (
        ["train", *ISING, "--overwrite", "--out", "foreign"], "no run of tcsis wrote"
    ),
    "kernel": (["mcmc", *ISING, "--kernel", "gwgg"], "did you mean 'gwg'?"),
    "burn-in": (["mcmc", *ISING, "--steps", "10", "--burn-in", "10"], "burn_in is 10"),
    "thin": (["mcmc", *ISING, "--thin", "0"], "mcmc.thin"),
    "kernel for another target": (
        ["mcmc", "good.py:density", *OWN, "--kernel", "wolff"], "is not pairwise"
    ),
    "kernel without a gradient": (
        ["mcmc", "good.py:density", *OWN, "--kernel", "gwg"], "has no gradient"
    ),
    "unknown method": (["compare", *ISING, "--methods", "exact,gwgg"], "did you mean gwg?"),
    "method twice": (["compare", *ISING, "--methods", "gwg,gwg"], "twice"),
    "no methods": (["compare", *ISING, "--methods", ""], "method is ''"),
    "equal in what": (["compare", *ISING, "--equal", "money"], "compare.equal"),
    "sample from nowhere": (["sample", "nothing"], "is not a folder"),
    "sample from another folder": (["sample", "full"], "no config.toml"),
    "sample and resume": (["sample", "run", "--resume", "--out", "run"], "a run of tcsis train"),
    "evaluate nothing": (["evaluate", "nothing"], "is not a folder"),
    "evaluate without draws": (["evaluate", "run"], "has no draws.nc: the run in it did not end"),
    "report without a result": (["report", "run"], "did not end"),
    "show nothing": (["show", "nothing"], "is not a folder"),
    "gate without exact answers": (
        ["mcmc", "good.py:density", "--num-sites", "30", "--num-values", "3", "--chains", "2",
         "--steps", "5", "--burn-in", "0", "--kernel", "glauber", "--max-error", "1"],
        "needs exact answers",
    ),
    "no such density file": (["exact", "nothing.py:density", *OWN], "no such file"),
    "no such module": (["exact", "no_such_module:density", *OWN], "cannot be imported"),
    "no such function": (["exact", "good.py:nothing", *OWN], "has no function 'nothing'"),
    "no function": (["exact", "good.py:", *OWN], "expected file.py:function"),
    "not a function": (["exact", "good.py:number", *OWN], "has no function"),
    "function without sites": (["exact", "good.py:density", "--num-values", "3"], "num_sites"),
    "syntax error": (["exact", "syntax.py:density", *OWN], "SyntaxError"),
    "error at import": (["exact", "import.py:density", *OWN], "ZeroDivisionError"),
    "density that raises": (["exact", "good.py:raises", *OWN], "raised KeyError"),
    "density of a wrong shape": (["exact", "good.py:wrong_shape", *OWN], "of shape ()"),
    "density of complex numbers": (["exact", "good.py:complex_numbers", *OWN], "torch.complex"),
    "density of words": (["exact", "good.py:words", *OWN], "returned a str"),
    "density of nan": (["exact", "good.py:not_a_number", *OWN], "returned nan"),
    "density of infinity": (["exact", "good.py:infinite", *OWN], "returned inf"),
}  # fmt: skip

DENSITIES = """
import torch

number = 3
def density(x): return x.double().sum(-1)
def raises(x): return {}["nothing"]
def wrong_shape(x): return x.double().sum()
def complex_numbers(x): return x.sum(-1) * 1j
def words(x): return "much"
def not_a_number(x): return x.double().sum(-1) * float("nan")
def infinite(x): return x.double().sum(-1) + float("inf")
"""

RUN = "[target]\nname = 'ising'\nside = 4\nbeta = 0.4\n[run]\ncommand = 'train'\n"


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with every kind of bad file."""
    monkeypatch.chdir(tmp_path)
    texts = {
        "good.py": DENSITIES,
        "syntax.py": "def density(x) return x",
        "import.py": "1 / 0",
        "broken.json": "{",
        "broken.npz": "\x00\xff",
        "couplings.txt": "1 2 3",
        "keys.json": '{"K": [[0, 1], [1, 0]]}',
        "shapes.json": '{"weights": [[1.0]], "visible_bias": [0, 0], "hidden_bias": [0]}',
        "ragged.json": '{"weights": [[1], [1, 2]], "visible_bias": [0], "hidden_bias": [0]}',
        "broken.toml": "[target",
        "section.toml": "[tarin]\nnum_steps = 3",
        "flat.toml": "run = 3\n[target]\nname = 'ising'",
        "empty.toml": "",
        "whole.toml": RUN + "[train]\nnum_steps = 3\n",
        "compare.toml": RUN.replace("train", "compare") + "[compare]\nmethods = ['exact']\n",
        "large.toml": RUN.replace("[run]", "[run]\nn = 1000000000000000"),
        "function.toml": "[target]\nname = 'good.py:density'\nnum_sites = 4\nnum_values = 3\n",
        "chains.toml": RUN.split("[run]")[0] + "[mcmc]\nkernel = 'gibbs'\n",
    }
    for name, text in texts.items():
        Path(name).write_text(text, encoding="latin-1")
    np.savez("nan.npz", J=np.full((3, 3), np.nan))
    for folder in ("full", "run", "foreign"):
        Path(folder).mkdir()
    Path("full/notes.txt").write_text("mine")
    Path("foreign/config.toml").write_text("[mine]\nkey = 1")
    Path("run/config.toml").write_text(seal_toml(RUN))
    return tmp_path


@pytest.mark.parametrize("case", LINES)
def test_bad_input_is_one_clear_line(case: str, workplace: Path, tcsis_cli: Callable) -> None:
    arguments, words = LINES[case]
    outcome = tcsis_cli(*arguments)
    assert outcome.code == 2
    assert_one_line(outcome, words)
    assert Path("foreign/config.toml").read_text() == "[mine]\nkey = 1"
    assert Path("full/notes.txt").read_text() == "mine"


def assert_one_line(outcome, words: str) -> None:
    assert outcome.out == ""
    assert outcome.err.startswith("error: ")
    assert outcome.err.count("\n") == 1
    assert words in outcome.err
    assert "Traceback" not in outcome.err


def test_no_bad_line_leaves_a_new_folder(workplace: Path, tcsis_cli: Callable) -> None:
    for case in ("device", "set an unknown setting", "one value", "burn-in", "too large to draw"):
        assert tcsis_cli(*LINES[case][0], "--out", "new").code == 2
        assert not Path("new").exists()


# -- checkpoints ---------------------------------------------------------------------------------


def edit_data(folder: Path, **changes: object) -> None:
    path = folder / "data.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes, indent=2) + "\n")


def cut(folder: Path) -> None:
    path = folder / "tensors.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def hold_nothing(folder: Path) -> None:
    from tcsis.learn import checkpoint

    checkpoint.save(folder.parent, {"a": torch.zeros(2)}, {"step": 1})


def hold_other_weights(folder: Path) -> None:
    from tcsis.learn import checkpoint

    tensors, data = checkpoint.load(folder)
    name = next(name for name in tensors if name.startswith("model/network"))
    checkpoint.save(folder.parent, tensors | {name: torch.zeros(3)}, data)


def hold_an_older_config(folder: Path) -> None:
    from tcsis.learn import checkpoint

    tensors, data = checkpoint.load(folder)
    config = {"method": "self-normalized", "schedule": "sequential", "num_steps": 1}
    checkpoint.save(folder.parent, tensors, data | {"config": config})


DAMAGES = {
    "nothing there": (shutil.rmtree, "no checkpoint in"),
    "tensors cut short": (cut, "does not match its checksum"),
    "tensors lost": (lambda folder: (folder / "tensors.safetensors").unlink(), "is missing"),
    "data lost": (lambda folder: (folder / "data.json").unlink(), "is missing"),
    "data not JSON": (lambda folder: (folder / "data.json").write_text("{"), "not valid JSON"),
    "data edited": (lambda folder: edit_data(folder, data={"step": 2}), "checksum"),
    "another format": (lambda folder: edit_data(folder, format="other"), "the format"),
    "a newer version": (lambda folder: edit_data(folder, version=99), "newer tcsis"),
    "no model": (hold_nothing, "holds no model"),
    "other weights": (hold_other_weights, "do not fit"),
    "an older version": (hold_an_older_config, "is of an older tcsis"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_bad_checkpoint(damage: str, untrained: Path, tmp_path: Path, tcsis_cli: Callable) -> None:
    run = tmp_path / "run"
    shutil.copytree(untrained, run)
    spoil, words = DAMAGES[damage]
    spoil(next((run / "checkpoint").iterdir()))
    outcome = tcsis_cli("sample", run, "--n", "10", "--out", tmp_path / "new")
    assert outcome.code == 4
    assert_one_line(outcome, words)
    assert not (tmp_path / "new").exists()


def test_resuming_a_bad_checkpoint(untrained: Path, tmp_path: Path, tcsis_cli: Callable) -> None:
    run = tmp_path / "run"
    shutil.copytree(untrained, run)
    cut(next((run / "checkpoint").iterdir()))
    outcome = tcsis_cli("train", "--resume", "--out", run)
    assert outcome.code == 4
    assert_one_line(outcome, "checksum")


def test_resuming_an_older_checkpoint(untrained: Path, tmp_path: Path, tcsis_cli: Callable) -> None:
    run = tmp_path / "run"
    shutil.copytree(untrained, run)
    hold_an_older_config(next((run / "checkpoint").iterdir()))
    outcome = tcsis_cli("train", "--resume", "--out", run)
    assert outcome.code == 4
    assert_one_line(outcome, "is of an older tcsis")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--seed", "7"], "another config or seed"),
        (["--set", "train.optimisation.batch_size=7"], "another config or seed"),
        (["--beta", "0.1"], "expected the target it was trained on"),
        (["--side", "5"], "expected the target it was trained on"),
    ],
)
def test_resuming_another_run(
    options: list[str], words: str, untrained: Path, tmp_path: Path, tcsis_cli: Callable
) -> None:
    run = tmp_path / "run"
    shutil.copytree(untrained, run)
    config = (run / "config.toml").read_bytes()
    outcome = tcsis_cli("train", "--resume", "--out", run, *options)
    assert outcome.code == 2
    assert_one_line(outcome, words)
    assert (run / "config.toml").read_bytes() == config  # or nothing could draw from it any more


def test_resuming_another_comparison(tmp_path: Path, tcsis_cli: Callable) -> None:
    run = tmp_path / "run"
    small = ["--methods", "autoregressive,exact", "--preset", "tiny", "--steps", "4", "--n", "50"]
    assert tcsis_cli("compare", *ISING, *small, "--out", run, "--quiet").code == 0
    outcome = tcsis_cli("compare", "--resume", "--out", run, "--seed", "7")
    assert outcome.code == 2
    assert_one_line(outcome, "another config or seed")
    assert tcsis_cli("show", run, "--quiet").code == 0


def test_damaged_draws_and_results(untrained: Path, tmp_path: Path, tcsis_cli: Callable) -> None:
    run = tmp_path / "run"
    shutil.copytree(untrained, run)
    (run / "draws.nc").write_bytes((run / "draws.nc").read_bytes()[:2_000])
    (run / "result.json").write_text("{}")
    outcome = tcsis_cli("evaluate", run)
    assert outcome.code == 2
    assert_one_line(outcome, "draws.nc has no checksum")
    for command in ("report", "show"):
        outcome = tcsis_cli(command, run, "--quiet")
        assert outcome.code == 2
        assert_one_line(outcome, "result.json has no checksum")


def test_calls_that_a_method_does_not_take(untrained: Path, tcsis_cli: Callable) -> None:
    outcome = tcsis_cli("sample", untrained, "--calls", "2")
    assert outcome.code == 2
    assert_one_line(outcome, "calls, schedule and step are fixed for the autoregressive method")
    outcome = tcsis_cli("sample", untrained, "--calls", "0")
    assert outcome.code == 2
    assert_one_line(outcome, "run.calls")


# -- other ends ----------------------------------------------------------------------------------


def test_divergence(tmp_path: Path, tcsis_cli: Callable) -> None:
    setting = "train.optimisation.learning_rate=1e30"
    outcome = tcsis_cli(
        "train", *ISING, *TINY, "--steps", "200", "--set", setting, "--out", tmp_path / "run"
    )
    assert outcome.code == 3
    assert "Traceback" not in outcome.err
    assert outcome.err.splitlines()[-1].startswith("error: training diverged")


def test_a_fault_of_our_own(tcsis_cli: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tcsis.app.cli.catalogue.targets", lambda printing: 1 / 0)
    outcome = tcsis_cli("targets")
    assert outcome.code == 1
    assert_one_line(outcome, "--debug shows where")
    outcome = tcsis_cli("targets", "--debug")
    assert outcome.code == 1
    assert "Traceback" in outcome.err
    outcome = tcsis_cli("targets", "--json")
    assert json.loads(outcome.out)["exit_code"] == 1
