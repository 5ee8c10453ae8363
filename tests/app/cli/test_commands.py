"""Commands that work: what they print, what they write, and how a run goes on."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import tcsis
from tcsis.app import experiment, settings, sources
from tcsis.app.cli import catalogue, environment, inspection
from tcsis.draws.storage import read_draws, write_draws
from tcsis.formats.files import FORMATS
from tcsis.learn import checkpoint
from tcsis.targets.spec import KINDS

ISING = ["ising", "--side", "4", "--beta", "0.4407"]
SMALL = ["ising", "--side", "3", "--beta", "0.4"]
TINY = ["--preset", "tiny", "--steps", "5", "--n", "100"]
FILES = {
    "config.toml", "env.json", "metrics.jsonl", "checkpoint", "draws.nc", "result.json",
    "report.html",
}  # fmt: skip
RING = """
def log_density(x):  # neighbours like to differ, and so do second neighbours
    near = (x != x.roll(1, -1)).double().sum(-1)
    return 0.8 * near + 0.5 * (x != x.roll(2, -1)).double().sum(-1)
"""


PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from tcsis.app.cli import main
sys.exit(main(sys.argv[1:]))
"""


def start(*arguments: str | Path, **options) -> subprocess.Popen:
    # a shell that runs the tests in the background has its children ignore ctrl-C
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


# -- the program itself ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("--help", ("doctor", "targets", "exact", "train", "sample", "mcmc", "evaluate")),
        ("--version", (f"tcsis {tcsis.__version__}",)),
        ("targets", ("spin-glass", "--disorder-seed", "density.py:log_density")),
    ],
)
def test_what_is_static_is_quick_and_needs_no_torch(command: str, told: tuple[str, ...]) -> None:
    program = (
        f"import sys; from tcsis.app.cli import main; code = main([{command!r}]); "
        "print(code, 'torch' in sys.modules, 'numpy' in sys.modules)"
    )
    seconds = []
    for _ in range(3):
        before = os.times()
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        after = os.times()  # of children, as wall time is that of whatever else runs here too
        user = after.children_user - before.children_user
        seconds.append(user + after.children_system - before.children_system)
    assert ran.stdout.splitlines()[-1] == "0 False False"
    for word in told:
        assert word in ran.stdout
    assert min(seconds) < 0.5


LOADED = """
import sys
from tcsis.app.cli import main
code = main(sys.argv[1:])
import os, torch
from tcsis.mcmc.compiled.threads import most_threads
maps = {line.split()[-1] for line in open("/proc/self/maps") if "gomp" in line or "iomp" in line}
told = [os.environ.get(name) for name in ("OMP_WAIT_POLICY", "NUMBA_NUM_THREADS")]
print(code, len(maps), torch.get_num_threads(), most_threads(), *told)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory map of Linux")
@pytest.mark.parametrize("asked", [["--threads", "1"], []])
def test_threads_are_set_before_anything_is_loaded(asked: list[str]) -> None:
    """Waiting threads sleep, there is one OpenMP, and all compute with what ``--threads`` says."""
    line = ["mcmc", *SMALL, "--chains", "5", "--steps", "10", "--burn-in", "2", "--quiet", *asked]
    unset = {"OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY"}
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    ran = subprocess.run(
        [sys.executable, "-c", LOADED, *line], env=environment, capture_output=True,
        text=True,
    )  # fmt: skip
    code, runtimes, *threads, policy, numba = ran.stdout.split()
    assert (code, runtimes, policy) == ("0", "1", "PASSIVE"), ran.stderr
    cores = len(os.sched_getaffinity(0))
    expected = asked[1] if asked else None
    assert numba == str(expected)
    assert threads == [expected or str(cores)] * 2


def test_the_policy_of_the_user_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "sys", SimpleNamespace(modules={}))
    for name in (*environment.THREADS, "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, "before")
    environment.set_environment(["train", "--threads", "many"])
    assert all(os.environ[name] == "before" for name in environment.THREADS)
    assert os.environ["OMP_WAIT_POLICY"] == "before"
    for line in (["train", "--threads", "3"], ["train", "--threads=3", "--quiet"]):
        monkeypatch.setenv("OMP_NUM_THREADS", "before")
        environment.set_environment(line)
        assert all(os.environ[name] == "3" for name in environment.THREADS)


def test_version_and_no_arguments(tcsis_cli: Callable) -> None:
    assert tcsis_cli("--version").out == f"tcsis {tcsis.__version__}\n"
    assert "Commands" in tcsis_cli().out


# -- looking ---------------------------------------------------------------------------------------


def test_targets_lists_what_exact_accepts(tcsis_cli: Callable) -> None:
    listed = json.loads(tcsis_cli("targets", "--json").out)["targets"]
    examples = {entry["name"]: shlex.split(entry["example"]) for entry in listed}
    for name in ("ising", "spin-glass"):
        assert tcsis_cli("exact", *examples[name]).code == 0
    assert "density.py:log_density" in tcsis_cli("targets").out


def test_targets_are_described_as_they_are() -> None:
    """The list is static, so that nobody waits for it."""
    described = {found.name: found for found in catalogue.TARGETS}
    named = {name: KINDS[name] for name in KINDS if not KINDS[name].tensors}
    named |= {name: KINDS[name] for name in sources.FROM_FILES}
    assert described.keys() == named.keys() | FORMATS.keys() | {"your own"}

    def options(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(
            "--" + {"seed": "disorder_seed"}.get(name, name).replace("_", "-") for name in names
        )

    spelled = {"problem": "--as", "coupling_penalty": None, "field_penalty": None}  # by --set
    for name, one in FORMATS.items():
        found = [spelled.get(own, *options((own,))) for own in one.settings]
        assert described[name].needs == ("FILE",)
        assert described[name].may_have == tuple(option for option in found if option)
    for name, kind in named.items():
        needs, may_have = described[name].needs, described[name].may_have
        expected = (
            (("FILE",), ()) if kind.tensors else (options(kind.required), options(kind.optional))
        )
        assert (needs, may_have) == expected, name


def test_exact_prints_what_the_library_gives(tcsis_cli: Callable) -> None:
    truth = tcsis.exact.solve(tcsis.targets.Ising(4, 0.4407))
    data = json.loads(tcsis_cli("exact", *ISING, "--json").out)
    assert data["log_z"] == pytest.approx(truth.log_z)
    assert data["correlation"] == pytest.approx(truth.correlation.tolist())
    assert f"{truth.log_z:.6f}" in tcsis_cli("exact", *ISING).out
    box = json.loads(tcsis_cli("exact", "ising", "--side", "3x4", "--beta", "0.3", "--json").out)
    assert box["target"]["side"] == [3, 4]


def test_targets_from_files(tmp_path: Path, tcsis_cli: Callable) -> None:
    rng = np.random.default_rng(0)
    j = np.triu(rng.normal(size=(5, 5)), 1)
    np.savez(tmp_path / "pairs.npz", J=j + j.T, beta=0.3)
    weights = {"weights": rng.normal(size=(4, 2)), "visible_bias": np.zeros(4)}
    np.savez(tmp_path / "rbm.npz", **weights, hidden_bias=np.zeros(2))
    for name, file in (("pairwise", "pairs.npz"), ("rbm", "rbm.npz")):
        outcome = tcsis_cli("exact", name, tmp_path / file, "--dtype", "float64", "--json")
        assert json.loads(outcome.out)["method"] == "enumeration"


def test_doctor_finds_nothing_wrong(tcsis_cli: Callable) -> None:
    outcome = tcsis_cli("doctor", "--json")
    data = json.loads(outcome.out)
    assert outcome.code == 0
    assert data["faults"] == {}
    assert data["environment"]["torch"].startswith(torch.__version__.split("+")[0])


# -- a run and what follows from it ----------------------------------------------------------------


def test_run_folder_is_complete(trained: Path) -> None:
    assert {path.name for path in trained.iterdir()} == FILES
    environment = json.loads((trained / "env.json").read_text())
    assert {"python", "torch", "numpy", "numba", "tcsis", "platform"} <= environment.keys()
    document = tomllib.loads((trained / "config.toml").read_text())
    again, target = settings.resolve(document, "train")
    assert isinstance(again, settings.Train)
    assert (again.train.method.kind, target.num_sites) == ("autoregressive", 16)
    assert again.train.num_steps == 400
    assert tomllib.loads(again.to_toml()) == document
    draws, attributes = read_draws(trained / "draws.nc")
    assert draws.x.shape == (10_000, 16)
    assert attributes["method"] == "autoregressive"
    result = json.loads((trained / "result.json").read_text())
    assert result["film"]
    assert len(result["scores"]["learned"]) > 50
    assert result["history"]
    assert result["commands"]
    assert "<title>" in (trained / "report.html").read_text()


@pytest.mark.parametrize(
    "line",
    [
        ["train", *SMALL, *TINY, "--out", "run"],
        ["compare", *SMALL, *TINY, "--methods", "autoregressive,exact"],
        ["mcmc", *SMALL, "--chains", "5", "--steps", "10", "--burn-in", "0", "--max-error", "9"],
        ["exact", *SMALL],
        ["exact", *SMALL, "--n", "20", "--out", "run"],
    ],
)
def test_a_target_is_built_once(
    line: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tcsis_cli: Callable
) -> None:
    monkeypatch.chdir(tmp_path)
    made = []

    def count(spec: dict, device: str = "cpu") -> tcsis.targets.Target:
        made.append(spec)
        return sources.make_target(spec, device)

    for module in (settings, experiment, inspection):
        monkeypatch.setattr(module, "make_target", count)
    assert tcsis_cli(*line, "--quiet").code == 0
    assert len(made) == 1


def test_methods_have_names_of_their_own(tmp_path: Path, tcsis_cli: Callable) -> None:
    for name in ("autoregressive", "self-normalized", "unbiased"):
        run = tmp_path / name
        line = ["--method", name, "--preset", "tiny", "--steps", "2", "--n", "20", "--out", run]
        outcome = tcsis_cli("train", *SMALL, *line, "--json")
        assert outcome.code == 0
        assert [method["name"] for method in json.loads(outcome.out)["methods"]] == [name]
        document = tomllib.loads((run / "config.toml").read_text())
        assert document["train"]["method"]["kind"] == name
        assert tcsis.load(run / "checkpoint").config.method.kind == name
    calls = tcsis_cli("sample", tmp_path / "self-normalized", "--calls", "7", "--n", "20", "--json")
    assert calls.code == 0
    drawn = json.loads(calls.out)["methods"][0]
    assert drawn["num_network_calls"] / drawn["n"] <= 7


def test_from_training_to_a_passed_gate(trained: Path, tmp_path: Path, tcsis_cli: Callable) -> None:
    shown = tcsis_cli("show", trained)
    assert shown.code == 0
    assert "autoregressive" in shown.out
    assert "ising" in shown.out
    new = tmp_path / "new"
    sampled = tcsis_cli("sample", trained, "--seed", "5", "--n", "10000", "--out", new, "--json")
    assert sampled.code == 0
    method = json.loads(sampled.out)["methods"][0]
    assert method["num_network_calls"] / method["n"] <= 24
    first, second = (read_draws(folder / "draws.nc")[0].x for folder in (trained, new))
    assert not torch.equal(first, second)
    evaluated = tcsis_cli("evaluate", new, "--max-error", "0.01", "--min-ess", "0.5")
    assert evaluated.code == 0
    assert "correlation" in evaluated.out


def test_draws_of_a_model_are_kept_without_a_folder_named(
    untrained: Path, tmp_path: Path, tcsis_cli: Callable
) -> None:
    for name in ("untrained-sample", "untrained-sample-2"):
        outcome = tcsis_cli("sample", untrained, "--n", "30")
        assert outcome.code == 0
        assert f"report: runs/{name}/report.html" in outcome.out
        assert len(read_draws(tmp_path / "runs" / name / "draws.nc")[0]) == 30
    outcome = tcsis_cli("sample", untrained, "--n", "30", "--json")
    assert json.loads(outcome.out)["folder"] == "runs/untrained-sample-3"


def test_what_a_budget_bought_is_said(tmp_path: Path, tcsis_cli: Callable) -> None:
    line = ["train", *SMALL, *TINY, "--steps", "30", "--time-budget", "100"]
    said = tcsis_cli(*line, "--out", tmp_path / "run").err
    assert re.search(
        r"autoregressive: budget of 100 s: .*s training \(30 of 30 steps, .* densities\)", said
    )
    model = tcsis.load(tmp_path / "run")
    assert model.steps == 30
    assert model.account in said


def test_too_small_a_budget_is_refused(tmp_path: Path, tcsis_cli: Callable) -> None:
    run = tmp_path / "run"
    outcome = tcsis_cli("train", *ISING, "--time-budget", "0.001", "--out", run)
    assert outcome.code == 2
    assert "error: time_budget is 0.001 s and what comes before the first step" in outcome.err
    assert not run.exists()


def test_a_bad_checkpoint_fails_the_gate(
    untrained: Path, tmp_path: Path, tcsis_cli: Callable
) -> None:
    """Spins that are drawn against their neighbours."""
    run, new = tmp_path / "run", tmp_path / "new"
    shutil.copytree(untrained, run)
    model = tcsis.load(run / "checkpoint")
    with torch.no_grad():
        model.module.network.linear.neg_()
    model.save(run / "checkpoint")
    assert tcsis_cli("sample", run, "--n", "2000", "--out", new).code == 0
    outcome = tcsis_cli("evaluate", new, "--max-error", "0.01")
    assert outcome.code == 5
    assert "above --max-error 0.01" in outcome.err
    assert "Traceback" not in outcome.err
    outcome = tcsis_cli("evaluate", new, "--min-ess", "0.9", "--json")
    assert outcome.code == json.loads(outcome.out)["exit_code"] == 5
    outcome = tcsis_cli("sample", run, "--n", "2000", "--max-error", "0.01", "--json")
    assert outcome.code == 5
    assert json.loads(outcome.out)["missed"]


def test_a_verdict_can_be_required(tmp_path: Path, tcsis_cli: Callable) -> None:
    """Draws at another temperature, whose weights repair them: with their weights only."""
    new = tmp_path / "new"
    line = ["exact", *ISING, "--n", "4000", "--out", new]
    assert tcsis_cli(*line).code == 0
    assert tcsis_cli("evaluate", new, "--require", "trusted").code == 0
    target, other = (tcsis.targets.Ising(4, beta) for beta in (0.4407, 0.5))
    x = tcsis.exact.draw(other, 4_000, seed=1).x
    ratio = target.log_density(x).double() - other.log_density(x).double()
    draws = tcsis.Draws(x, ratio + tcsis.exact.solve(other).log_z)
    write_draws(new / "draws.nc", draws, target)
    outcome = tcsis_cli("evaluate", new, "--require", "trusted")
    assert outcome.code == 5
    assert "the verdict is trusted by weight, not --require trusted" in outcome.err
    passed = tcsis_cli("evaluate", new, "--require", "trusted-by-weight", "--json")
    assert passed.code == 0
    verdict = json.loads(passed.out)["methods"][0]["verdict"]
    assert (verdict["as_drawn"]["level"], verdict["by_weight"]["level"]) == ("failed", "trusted")


def test_same_seed_same_draws(untrained: Path, tmp_path: Path, tcsis_cli: Callable) -> None:
    for name in ("a", "b"):
        line = ["--seed", "3", "--n", "300", "--out", tmp_path / name]
        assert tcsis_cli("sample", untrained, *line).code == 0
    config = tmp_path / "a" / "config.toml"
    tcsis_cli("sample", untrained, "--config", config, "--out", tmp_path / "c")
    a, b, c = (read_draws(tmp_path / name / "draws.nc")[0].x for name in "abc")
    assert torch.equal(a, b)
    assert torch.equal(a, c)


def test_report_is_written_again(untrained: Path, tcsis_cli: Callable) -> None:
    page = untrained / "report.html"
    before = page.read_text()
    page.unlink()
    outcome = tcsis_cli("report", untrained, "--json")
    assert json.loads(outcome.out)["report"] == str(page)
    assert page.read_text() == before


# -- folders ---------------------------------------------------------------------------------------


def test_refuse_overwrite_and_keep_the_rest(tmp_path: Path, tcsis_cli: Callable) -> None:
    run = tmp_path / "run"
    line = ["mcmc", *SMALL, "--chains", "10", "--steps", "20", "--burn-in", "5", "--out", run]
    assert tcsis_cli(*line).code == 0
    (run / "notes.txt").write_text("mine")
    (run / "checkpoint").mkdir()
    (run / "checkpoint" / "mine.txt").write_text("mine too")
    outcome = tcsis_cli(*line)
    assert outcome.code == 2
    assert "not empty" in outcome.err
    assert tcsis_cli(*line, "--overwrite", "--seed", "1").code == 0
    assert (run / "notes.txt").read_text() == "mine"
    assert (run / "checkpoint" / "mine.txt").read_text() == "mine too"
    assert tomllib.loads((run / "config.toml").read_text())["run"]["seed"] == 1


def test_training_takes_a_free_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tcsis_cli: Callable
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ising", "ising-2"):
        outcome = tcsis_cli("train", *SMALL, *TINY, "--json")
        assert json.loads(outcome.out)["folder"] == str(Path("runs") / name)


def test_resume_goes_on(tmp_path: Path, tcsis_cli: Callable) -> None:
    run = tmp_path / "run"
    line = ["--preset", "tiny", "--n", "200", "--steps", "20", "--out", run, "--quiet"]
    assert tcsis_cli("train", *SMALL, *line).code == 0
    assert tcsis_cli("train", "--resume", "--out", run, "--steps", "30", "--quiet").code == 0
    assert tomllib.loads((run / "config.toml").read_text())["train"]["num_steps"] == 30
    assert saved_step(run) == 30
    assert tcsis_cli("mcmc", *SMALL, "--resume", "--out", run).code == 2


def test_options_over_files(tmp_path: Path, tcsis_cli: Callable) -> None:
    config = tmp_path / "run.toml"
    config.write_text(
        "[target]\nname = 'ising'\nside = 3\nbeta = 0.2\n[run]\npreset = 'tiny'\nn = 100\n"
        "[train]\nnum_steps = 3\n[train.optimisation]\nlearning_rate = 0.001\n"
    )
    run = tmp_path / "run"
    outcome = tcsis_cli(
        "train", "--config", config, "--beta", "0.3", "--set", "train.optimisation.warmup=7",
        "--set", "run.seed=4", "--dtype", "float64", "--threads", "1", "--out", run,
    )  # fmt: skip
    assert outcome.code == 0
    document = tomllib.loads((run / "config.toml").read_text())
    assert document["target"] == {"name": "ising", "side": 3, "beta": 0.3, "dtype": "float64"}
    assert document["train"]["num_steps"] == 3
    assert document["train"]["dtype"] == "float64"
    assert document["train"]["optimisation"]["learning_rate"] == 0.001
    assert document["train"]["optimisation"]["warmup"] == 7
    assert document["run"]["seed"] == 4
    again = tcsis_cli("train", "--config", run / "config.toml", "--out", tmp_path / "again")
    assert again.code == 0
    same = [read_draws(folder / "draws.nc")[0].x for folder in (run, tmp_path / "again")]
    assert torch.equal(*same)


@pytest.mark.parametrize(
    "line",
    [
        ["compare", *SMALL, *TINY, "--methods", "self-normalized,exact,autoregressive"],
        ["compare", *SMALL, "--methods", "exact", "--n", "50"],
        ["mcmc", *SMALL, "--chains", "5", "--steps", "10", "--burn-in", "2", "--threads", "1"],
        ["exact", *SMALL, "--n", "50", "--dtype", "float64"],
    ],
)
def test_the_config_of_a_run_repeats_it(
    line: list[str], tmp_path: Path, tcsis_cli: Callable
) -> None:
    first, again = tmp_path / "first", tmp_path / "again"
    assert tcsis_cli(*line, "--seed", "3", "--out", first, "--quiet").code == 0
    config = first / "config.toml"
    assert tcsis_cli(line[0], "--config", config, "--out", again, "--quiet").code == 0
    assert (again / "config.toml").read_text() == config.read_text()
    assert torch.equal(*(read_draws(folder / "draws.nc")[0].x for folder in (first, again)))


# -- chains, comparisons, densities ----------------------------------------------------------------


def test_mcmc_keeps_chains(tmp_path: Path, tcsis_cli: Callable) -> None:
    outcome = tcsis_cli(
        "mcmc", *SMALL, "--kernel", "glauber", "--chains", "20", "--steps", "400", "--burn-in",
        "100", "--thin", "3", "--out", tmp_path / "run", "--max-error", "0.1", "--json",
    )  # fmt: skip
    assert outcome.code == 0
    assert json.loads(outcome.out)["methods"][0]["n"] == 2_000
    draws, _ = read_draws(tmp_path / "run" / "draws.nc")
    assert draws.x.shape == (20, 100, 9)


def test_exact_with_a_folder(tmp_path: Path, tcsis_cli: Callable) -> None:
    outcome = tcsis_cli("exact", *SMALL, "--n", "2000", "--out", tmp_path / "run")
    assert outcome.code == 0
    assert tcsis_cli("evaluate", tmp_path / "run", "--max-error", "0.05").code == 0
    assert tcsis_cli("sample", tmp_path / "run").code == 4  # it holds no model


def test_compare_at_equal_cost(tmp_path: Path, tcsis_cli: Callable) -> None:
    outcome = tcsis_cli(
        "compare", *SMALL, *TINY, "--methods", "autoregressive,glauber,gibbs,exact", "--equal",
        "densities", "--out", tmp_path / "run", "--json",
    )  # fmt: skip
    assert outcome.code == 0
    methods = {method["name"]: method for method in json.loads(outcome.out)["methods"]}
    assert list(methods) == ["autoregressive", "glauber", "gibbs", "exact"]
    budget = methods["autoregressive"]["num_density_calls"]
    for name in ("glauber", "gibbs"):
        assert methods[name]["num_density_calls"] == pytest.approx(budget, rel=0.1)
    assert tcsis_cli("sample", tmp_path / "run", "--n", "10").code == 0


def test_own_density(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tcsis_cli: Callable) -> None:
    (tmp_path / "ring.py").write_text(RING)
    monkeypatch.chdir(tmp_path)
    line = ["ring.py:log_density", "--num-sites", "12", "--num-values", "3"]
    trained = tcsis_cli("train", *line, *TINY, "--steps", "40", "--out", "run", "--json")
    assert trained.code == 0
    assert {path.name for path in Path("run").iterdir()} == FILES | {"code.json"}
    monkeypatch.chdir(tmp_path.parent)  # the config says where the function is
    run = tmp_path / "run"
    assert tcsis_cli("sample", run, "--n", "500", "--seed", "3", "--out", tmp_path / "b").code == 0
    assert tcsis_cli("train", "--resume", "--out", run, "--steps", "45", "--quiet").code == 0


def test_own_density_from_a_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tcsis_cli: Callable
) -> None:
    (tmp_path / "ring_of_tests.py").write_text(RING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    data = tcsis_cli(
        "exact", "ring_of_tests:log_density", "--side", "3x4", "--num-values", "2", "--json"
    )
    assert json.loads(data.out)["correlation"] is not None


def test_own_energy_with_dropout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tcsis_cli: Callable
) -> None:
    (tmp_path / "energy.py").write_text(
        "from torch import nn\n"
        "energy = nn.Sequential(nn.Embedding(2, 3), nn.Dropout(), nn.Flatten(), nn.Linear(12, 1))\n"
    )
    monkeypatch.chdir(tmp_path)
    outcome = tcsis_cli("exact", "energy.py:energy", "--num-sites", "4", "--num-values", "2")
    assert outcome.code == 0
    assert "from_callable(energy," in outcome.out


# -- printing and interrupts -----------------------------------------------------------------------


def test_json_alone_on_stdout(untrained: Path, tmp_path: Path, tcsis_cli: Callable) -> None:
    lines = [
        ["targets"], ["exact", *SMALL], ["show", untrained], ["evaluate", untrained],
        ["report", untrained], ["sample", untrained, "--n", "50"], ["train", *SMALL, *TINY],
        ["mcmc", *SMALL, "--chains", "5", "--steps", "10", "--burn-in", "0"], ["exact", "nothing"],
    ]  # fmt: skip
    for number, line in enumerate(lines):
        keeps = line[0] == "train"
        folder = ["--out", tmp_path / str(number)] if keeps else []
        outcome = tcsis_cli(*line, *folder, "--json")
        assert isinstance(json.loads(outcome.out), dict), line
        assert outcome.out.count("\n") == 1


def test_quiet_says_nothing(untrained: Path, tcsis_cli: Callable) -> None:
    outcome = tcsis_cli("sample", untrained, "--n", "50", "--quiet")
    assert (outcome.out, outcome.err) == ("", "")


@pytest.mark.slow
def test_ctrl_c_saves_and_says_how_to_go_on(
    tmp_path: Path, interrupt: Callable[..., str], tcsis_cli: Callable
) -> None:
    run = tmp_path / "run"
    threads = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    many = ["--preset", "tiny", "--steps", "100000", "--set", "run.checkpoint_every=0.5"]
    process = start("train", *SMALL, *many, "--n", "200", "--out", run, env=threads)
    saved = run / "checkpoint"
    err = interrupt(process, lambda: max(checkpoint.list_checkpoints(saved), default=0) > 3)
    said = re.search(r"go on with: tcsis (.*)$", err)
    assert said is not None
    step = saved_step(run)
    assert 0 < step < 100_000
    assert tcsis_cli(*shlex.split(said[1]), "--steps", str(step + 5)).code == 0
    assert saved_step(run) == step + 5
    assert {path.name for path in run.iterdir()} == FILES


def saved_step(run: Path) -> int:
    return checkpoint.load(run / "checkpoint")[1]["step"]


def test_a_run_begins_with_the_weights_of_another(tcsis_cli: Callable, tmp_path: Path) -> None:
    any_time = ["--method", "any-time", *TINY]
    assert tcsis_cli("train", *SMALL, *any_time, "--out", "small").code == 0
    done = tcsis_cli(
        "train", "ising", "--side", "4", "--beta", "0.4", *any_time, "--start", "small",
        "--out", "large",
    )  # fmt: skip
    assert done.code == 0, done.err
    config = tomllib.loads((tmp_path / "large" / "config.toml").read_text())
    assert config["run"]["start"] == str(tmp_path / "small")
    refused = tcsis_cli("train", *SMALL, *any_time, "--start", "nowhere", "--out", "other")
    assert refused.code == 4 and refused.err.count("\n") == 1 and "nowhere" in refused.err
    other = tcsis_cli("train", *SMALL, *TINY, "--start", "small", "--out", "other")
    assert other.code == 2 and "is to be trained: expected the same" in other.err


def test_a_run_goes_on_without_the_one_that_it_began_with(
    tcsis_cli: Callable, tmp_path: Path
) -> None:
    assert tcsis_cli("train", *SMALL, *TINY, "--out", "first").code == 0
    assert tcsis_cli("train", *SMALL, *TINY, "--start", "first", "--out", "second").code == 0
    (tmp_path / "first").rename(tmp_path / "elsewhere")
    done = tcsis_cli("train", "--resume", "--out", "second", "--steps", "12")
    assert done.code == 0, done.err
