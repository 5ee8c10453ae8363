"""Presets hold what they say, and configs are frozen values that refuse what is wrong."""

import json
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from tcsis.learn import assemble, presets
from tcsis.learn.config import Config, Part, parse
from tcsis.learn.models.diffusion import DenoiserModel, ScoreModel
from tcsis.learn.models.marginal import MarginalModel
from tcsis.learn.models.sequential import Sequential
from tcsis.learn.trainer import choose_preset
from tcsis.targets import RBM, Ising, Pairwise, Potts, Target, from_callable

CHAIN = Pairwise([[i, i + 1] for i in range(6)], torch.ones(6, 2, 2).triu(), torch.zeros(7, 2))
TARGETS: dict[str, Target] = {
    "ising": Ising(4, 0.4407),
    "ising-10": Ising(10, 0.4407),
    "potts": Potts(3, 3, 0.8),
    "graph": CHAIN,
    "rbm": RBM(torch.ones(5, 3), torch.zeros(5), torch.zeros(3)),
    "callable": from_callable(lambda x: -x.sum(1).double(), 5, 3),
}
COMBINATIONS = {
    ("self-normalized", "sequential"): Sequential,
    ("unbiased", "sequential"): Sequential,
    ("self-normalized", "parallel"): DenoiserModel,
    ("unbiased", "parallel"): MarginalModel,
}


# -- the paper -------------------------------------------------------------------------------------

TABLE_1 = {
    # side, method: estimator, N, proposal and its settings, rate, steps, dtype
    (4, "self-normalized"): ("naive", 500, "uniform", {}, 1e-5, 50_000, "float32"),
    (4, "unbiased"): (
        "log_marginal", 100, "mcmc", {"kernel": "gwg", "num_steps": 1_000}, 1e-4, 50_000, "float32",
    ),
    (10, "self-normalized"): (
        "naive", 2_000, "model_and_noise", {"noise_share": 0.1}, 3e-6, 150_000, "float32",
    ),
    (10, "unbiased"): (
        "log_marginal", 500, "mcmc", {"kernel": "gwg", "num_steps": 1_000}, 1e-4, 100_000,
        "float64",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("side", "method"), TABLE_1)
def test_paper_is_table_1(side: int, method: str) -> None:
    target = Ising(side, 0.28)
    config = presets.paper(target, method)
    estimator, n, proposal, settings, rate, steps, dtype = TABLE_1[side, method]
    assert config.method == method
    assert config.schedule == "parallel"
    assert config.objective == "score-entropy"
    assert (config.estimator.name, config.estimator.settings) == (estimator, {"num_samples": n})
    assert config.proposal.name == proposal
    assert settings.items() <= config.proposal.settings.items()
    assert config.optimisation.learning_rate == rate
    assert config.optimisation.batch_size == 64
    assert config.optimisation.ema == 0.999
    assert config.num_steps == steps
    assert config.dtype == dtype
    assert config.preconditioned == (method == "unbiased")
    assert config.network.name == "dit"
    model = assemble.make_model(config, target, seed=0)
    assert isinstance(model, MarginalModel if method == "unbiased" else ScoreModel)
    weights = list(model.parameters())
    assert sum(w.numel() for w in weights) < 1_000_000
    assert {w.dtype for w in weights} == {getattr(torch, dtype)}


# -- any target ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize(("method", "schedule"), COMBINATIONS)
@pytest.mark.parametrize("preset", [presets.fast, presets.tiny])
def test_presets_fit_any_target(preset: Any, method: str, schedule: str, name: str) -> None:
    target = TARGETS[name]
    config = preset(target, method, schedule)
    assert (config.method, config.schedule) == (method, schedule)
    model = assemble.make_model(config, target, seed=0)
    assert isinstance(model, COMBINATIONS[method, schedule])
    assert sum(w.numel() for w in model.parameters()) < 4_000_000
    assemble.make_loss(config, target, model)
    assemble.make_proposal(config, target)
    assert parse(json.loads(json.dumps(config.model_dump())), Config) == config


def test_a_crowd_is_a_kind_of_preconditioning() -> None:
    target = TARGETS["ising-10"]
    config = presets.tiny(target, "unbiased", "parallel")
    config = config.model_copy(update={"preconditioned": False})
    with pytest.raises(ValueError, match="crowd_size is 64: expected crowd_size 0 without"):
        assemble.make_model(config, target, seed=0)


def test_tiny_is_small() -> None:
    for method, schedule in COMBINATIONS:
        config = presets.tiny(TARGETS["ising-10"], method, schedule)
        assert config.network.width == 8 and config.num_steps == 60
        assert config.proposal.settings["size"] == 256


def test_first_weights_depend_on_the_seed_alone() -> None:
    config = presets.tiny(TARGETS["ising"])

    def weights(seed: int) -> torch.Tensor:
        return assemble.make_model(config, TARGETS["ising"], seed).network.w1

    before = torch.random.get_rng_state()
    first = weights(1)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.rand(3)
    assert torch.equal(weights(1), first)
    assert not torch.equal(weights(2), first)


def test_unknown_presets_are_refused_with_the_choices() -> None:
    target = TARGETS["ising"]
    with pytest.raises(ValueError, match="preset is 'quick': expected fast, paper or tiny"):
        choose_preset(target, "self-normalized", "quick", "sequential")
    with pytest.raises(ValueError, match="expected self-normalized or unbiased"):
        presets.fast(target, "biased")
    with pytest.raises(ValueError, match="sequential or parallel"):
        presets.fast(target, "unbiased", "blockwise")


# -- configs ---------------------------------------------------------------------------------------


def test_configs_are_frozen() -> None:
    config = presets.fast(TARGETS["ising"])
    with pytest.raises(ValidationError, match="frozen"):
        config.num_steps = 3
    with pytest.raises(ValidationError, match="frozen"):
        config.network.width = 3


def changed(**changes: Any) -> dict[str, Any]:
    return presets.fast(TARGETS["ising"]).model_dump() | changes


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (changed(num_steps=0), "config: num_steps is wrong: .* greater than or equal to 1"),
        (changed(objective="cubes"), "config: objective is wrong: .*'cross-entropy'"),
        (changed(network={"name": "mlp", "width": 8}), "config: network.name is wrong"),
        (changed(optimisation={"ema": 1.0}), "config: optimisation.ema is wrong"),
        (changed(optimisation={"batch_size": 1}), "config: optimisation.batch_size is wrong"),
        (changed(learning_rate=1.0), "config: learning_rate is wrong: Extra inputs"),
        (changed(dtype="bfloat16"), "config: dtype is wrong"),
        ({}, "config: objective is wrong: Field required"),
    ],
)
def test_wrong_configs_are_refused_in_one_line(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        parse(data, Config)
    assert "\n" not in str(caught.value)


def part(name: str, **settings: Any) -> dict[str, Any]:
    return {"name": name, "settings": settings}


@pytest.mark.parametrize(
    ("schedule", "changes", "message"),
    [
        ("sequential", {"proposal": part("gibbs")}, "expected one of uniform, model_and_noise"),
        ("sequential", {"proposal": part("uniform", length=3)}, "settings of uniform are wrong"),
        ("sequential", {"objective": "path"}, "expected one of cross-entropy, spread"),
        ("parallel", {"objective": "spread"}, "expected one of path, cross-entropy, score-ent"),
        ("parallel", {"estimator": part("cold")}, "expected one of naive, shared"),
        ("parallel", {"network": {"name": "causal", "width": 8}}, "expected one of lattice, dit"),
    ],
)
def test_names_that_do_not_exist_are_refused(
    schedule: str, changes: dict[str, Any], message: str
) -> None:
    target = TARGETS["ising"]
    config = presets.tiny(target, "self-normalized", schedule)
    config = parse(config.model_dump() | changes, Config)
    with pytest.raises(ValueError, match=message):
        make_everything(config, target)


def make_everything(config: Config, target: Target) -> None:
    model = assemble.make_model(config, target, seed=0)
    assemble.make_loss(config, target, model)
    assemble.make_proposal(config, target)


def test_networks_that_do_not_fit_the_target_are_refused() -> None:
    config = presets.tiny(TARGETS["ising"], "self-normalized", "parallel")
    with pytest.raises(ValueError, match=r"no lattice: expected network\.name dit or graph"):
        assemble.make_model(config, TARGETS["graph"], seed=0)
    config = presets.tiny(TARGETS["graph"], "self-normalized", "parallel")
    assert config.network.name == "graph"
    with pytest.raises(ValueError, match=r"not pairwise: expected network\.name dit"):
        assemble.make_model(config, TARGETS["rbm"], seed=0)


def test_wrong_parts_are_refused_before_training() -> None:
    target = Ising(4, 0.4)
    noisy = presets.tiny(target, schedule="parallel").model_copy(
        update={"estimator": Part(name="marginalised", settings={"num_smaples": 4})}
    )
    with pytest.raises(ValueError, match="settings of marginalised are wrong"):
        assemble.make_loss(noisy, target, assemble.make_model(noisy, target, 0))
    score = presets.tiny(target, schedule="parallel").model_copy(
        update={"objective": "score-entropy"}
    )
    with pytest.raises(ValueError, match="noise_eps is 0"):
        assemble.make_loss(score, target, assemble.make_model(score, target, 0))
