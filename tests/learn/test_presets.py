"""Presets hold what they say, and configs are frozen values that refuse what is wrong."""

import json
from typing import Any

import pytest
import torch
from pydantic import BaseModel, ValidationError

from tcsis.basics.frozen import models_in, parse
from tcsis.learn import presets
from tcsis.learn.autoregressive import Autoregressive, CausalLaw
from tcsis.learn.buffers import Buffer
from tcsis.learn.config import Config
from tcsis.learn.models import marginal
from tcsis.learn.models.diffusion import DenoiserModel, ScoreModel
from tcsis.learn.models.known_law import KnownLaw
from tcsis.learn.models.marginal import MarginalModel
from tcsis.learn.sampling import EULER
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
MODELS = {
    "autoregressive": CausalLaw,
    "any-time": KnownLaw,
    "self-normalized": DenoiserModel,
    "unbiased": MarginalModel,
}


# -- the paper -------------------------------------------------------------------------------------

TABLE_1 = {
    # side, method: estimator, N, buffer and its settings, rate, steps, dtype
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
    estimator, n, buffer, settings, rate, steps, dtype = TABLE_1[side, method]
    chosen = config.method
    assert chosen.kind == method
    assert config.model_dump()["method"]["objective"] == "score-entropy"
    assert (chosen.estimator.kind, chosen.estimator.num_samples) == (estimator, n)
    assert config.buffer.kind == buffer
    assert settings.items() <= config.buffer.model_dump().items()
    assert config.optimisation.learning_rate == rate
    assert config.optimisation.batch_size == 64
    assert config.optimisation.ema == 0.999
    assert config.num_steps == steps
    assert config.dtype == dtype
    if method == "unbiased":
        assert chosen.preconditioning.kind == "density" and chosen.scores is marginal.assembled
    else:
        assert not chosen.preconditioned
    assert chosen.network.kind == "dit" and chosen.step is EULER
    model = config.new_model(target, seed=0)
    assert isinstance(model, MarginalModel if method == "unbiased" else ScoreModel)
    weights = list(model.parameters())
    assert sum(w.numel() for w in weights) < 1_000_000
    assert {w.dtype for w in weights} == {getattr(torch, dtype)}


# -- any target ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("method", MODELS)
@pytest.mark.parametrize("preset", [presets.fast, presets.tiny])
def test_presets_fit_any_target(preset: Any, method: str, name: str) -> None:
    target = TARGETS[name]
    config = preset(target, method)
    assert config.method.kind == method
    model = make_everything(config, target)
    assert isinstance(model, MODELS[method])
    assert sum(w.numel() for w in model.parameters()) < 4_000_000
    assert parse(Config, json.loads(json.dumps(config.model_dump()))) == config


def make_everything(config: Config, target: Target) -> torch.nn.Module:
    """The model, after its loss and its sampler could be made for it."""
    model = config.new_model(target, seed=0)
    config.method.loss(model, target, Buffer(config.buffer, target))
    config.method.sampler(model, target)
    return model


def test_tiny_is_small() -> None:
    for method in MODELS:
        config = presets.tiny(TARGETS["ising-10"], method)
        network = getattr(config.method, "network", config.method)
        assert network.width == 8 and config.num_steps == 60
        assert config.buffer.size == 256
    assert config.method.preconditioning.size == 64


def test_first_weights_depend_on_the_seed_alone() -> None:
    config = presets.tiny(TARGETS["ising"])

    def weights(seed: int) -> torch.Tensor:
        return config.new_model(TARGETS["ising"], seed).network.w1

    before = torch.random.get_rng_state()
    first = weights(1)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.rand(3)
    assert torch.equal(weights(1), first)
    assert not torch.equal(weights(2), first)


@pytest.mark.parametrize(
    ("target", "method"),
    [
        (Ising(11, 0.4), "autoregressive"),
        (Ising(12, 0.4), "any-time"),
        (Ising((6, 6, 6), 0.2, field=0.1), "any-time"),
        (Ising(12, 0.4, boundary="open"), "autoregressive"),
        (Ising(12, 0.4).given({0: 1}), "autoregressive"),
        (Potts(12, 3, 0.8), "any-time"),
        (Potts(11, 3, 0.8), "autoregressive"),
        (from_callable(lambda x: -x.sum(1).double(), 5, 3), "autoregressive"),
    ],
)
def test_the_default_by_target(target: Target, method: str) -> None:
    assert presets.default_method(target) == method
    assert presets.choose(target).method.kind == method
    assert presets.choose(target, preset="tiny").method.kind == method


def test_presets_by_name() -> None:
    target = TARGETS["ising"]
    assert presets.choose(target) == presets.fast(target, "autoregressive")
    assert presets.choose(target, preset="paper") == presets.paper(target, "self-normalized")
    assert presets.choose(target, "unbiased", "tiny") == presets.tiny(target, "unbiased")
    with pytest.raises(ValueError, match="preset is 'quick': expected fast, paper or tiny"):
        presets.choose(target, "unbiased", "quick")
    with pytest.raises(
        ValueError, match="has autoregressive, any-time, self-normalized or unbiased"
    ):
        presets.fast(target, "biased")
    with pytest.raises(ValueError, match="is 'autoregressive': this preset has self-normalized or"):
        presets.paper(target, "autoregressive")


# -- configs ---------------------------------------------------------------------------------------


def test_configs_are_frozen() -> None:
    config = presets.fast(TARGETS["ising"])
    with pytest.raises(ValidationError, match="frozen"):
        config.num_steps = 3
    with pytest.raises(ValidationError, match="frozen"):
        config.method.width = 3


def test_a_changed_config_is_checked_and_keeps_the_rest() -> None:
    config = presets.fast(TARGETS["ising"], "self-normalized")
    wider = config.changed(num_steps=7, method={"network": {"width": 5}})
    assert (wider.num_steps, wider.method.network.width) == (7, 5)
    assert wider.method.network.depth == config.method.network.depth
    assert config.changed() == config
    # another kind brings settings of its own, and none of the old
    other = config.changed(buffer={"kind": "uniform"})
    assert other.buffer.model_dump() == {"kind": "uniform", "size": 4_096, "every": 1}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_steps": 0}, r"config\.num_steps is wrong: .* greater than or equal to 1"),
        ({"method": {"kind": "biased"}}, r"config\.method\.kind is 'biased': expected one of"),
        (
            {"method": {"objective": "path"}},
            "'path' is none of both-sides, spread, cross-entropy",
        ),
        ({"buffer": {"kind": "gibbs"}}, r"buffer\.kind is 'gibbs': expected one of 'uniform'"),
        (
            {"buffer": {"kind": "uniform", "length": 3}},
            r"\(uniform\) has no setting 'length'",
        ),
        ({"optimisation": {"ema": 1.0}}, r"config\.optimisation\.ema is wrong"),
        ({"optimisation": {"batch_size": 1}}, r"config\.optimisation\.batch_size is wrong"),
        ({"learning_rate": 1.0}, "config has no setting 'learning_rate': expected method, buffer"),
        ({"dtype": "bfloat16"}, r"config\.dtype is wrong"),
    ],
)
def test_wrong_configs_are_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        presets.fast(TARGETS["ising"]).changed(**changes)
    assert "\n" not in str(caught.value)


# -- every setting is read or refused --------------------------------------------------------------


def fields_below(kind: type[BaseModel]) -> set[str]:
    """Names of all settings of a class and of what stands in it."""
    found = set(kind.model_fields)
    for field in kind.model_fields.values():
        for part in models_in(field.annotation):
            found |= fields_below(part)
    return found


METHODS = {name: type(presets.fast(TARGETS["ising"], name).method) for name in MODELS}
BEFORE = (
    "schedule", "times", "estimator", "proposal", "network", "depth", "heads", "crowd_size",
    "reverse_step", "num_calls", "noise_eps", "scores", "compiled", "preconditioned",
)  # fmt: skip
"""Settings that a config without methods accepted, and most methods never read."""
EVERY = sorted({*BEFORE, *(name for kind in METHODS.values() for name in fields_below(kind))})


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", EVERY)
def test_a_setting_that_a_method_does_not_read_is_refused(method: str, name: str) -> None:
    """In the words of the method, with the settings that it has."""
    if name in METHODS[method].model_fields:
        return
    config = presets.tiny(TARGETS["ising"], method)
    with pytest.raises(
        ValueError, match=rf"config.method \({method}\) has no setting '{name}': "
    ) as e:
        config.changed(method={name: 1})
    assert ", ".join(METHODS[method].model_fields) in str(e.value)


@pytest.mark.parametrize(
    ("method", "changes", "message"),
    [
        (
            "self-normalized",
            {"network": {"heads": 2}},
            r"\(dense\) has no setting 'heads'",
        ),
        (
            "self-normalized",
            {"estimator": {"num_samples": 4}},
            r"\(warm\) has no setting 'num_samples",
        ),
        ("self-normalized", {"estimator": {"kind": "cold"}}, "kind is 'cold': expected one of"),
        (
            "self-normalized",
            {"estimator": {"kind": "marginalised", "num_smaples": 4}},
            r"\(marginalised\) has no setting 'num_smaples': expected kind, num_samples",
        ),
        ("unbiased", {"preconditioning": {"kind": "density", "size": 3}}, "has no setting 'size'"),
        ("unbiased", {"step": "leap"}, "step is wrong: 'leap' is none of euler, tweedie, trapezo"),
        ("unbiased", {"network": {"kind": "causal", "width": 8}}, "kind is 'causal': expected"),
        ("self-normalized", {"objective": "score-entropy"}, "noise_eps is 0, and in"),
    ],
)
def test_parts_refuse_what_they_do_not_read(
    method: str, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        presets.tiny(TARGETS["ising"], method).changed(method=changes)
    assert "\n" not in str(caught.value)


def test_networks_that_do_not_fit_the_target_are_refused() -> None:
    config = presets.tiny(TARGETS["ising"], "self-normalized")
    assert config.method.network.kind == "dense"
    config = config.changed(method={"network": {"kind": "lattice", "width": 8}})
    with pytest.raises(ValueError, match="no lattice: expected network dit, dense or graph"):
        config.new_model(TARGETS["graph"], seed=0)
    config = presets.tiny(TARGETS["graph"], "self-normalized")
    assert config.method.network.kind == "graph"
    with pytest.raises(ValueError, match="not pairwise: expected network dit"):
        config.new_model(TARGETS["rbm"], seed=0)


def test_constructors_refuse_in_one_sentence_too() -> None:
    with pytest.raises(ValueError, match=r"^Autoregressive \(.*\) has no setting 'step': ") as e:
        Autoregressive(step="euler")
    assert "\n" not in str(e.value)
