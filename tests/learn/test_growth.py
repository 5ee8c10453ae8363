"""Weights of a smaller lattice on a larger one, and training that begins with another model."""

import pytest
import torch

import tcsis
from tcsis.learn.models.known_law import KnownLaw, displacements_in
from tcsis.learn.nn.gated import Gated
from tcsis.learn.training import Run
from tcsis.targets import Ising, Potts
from tcsis.targets.lattice import Lattice


def law(side: int, seed: int = 0) -> KnownLaw:
    target = Ising(side, 0.4)
    model = tcsis.presets.tiny(target, "any-time").new_model(target, seed)
    assert isinstance(model, KnownLaw)
    with torch.no_grad():
        for weights in model.parameters():
            weights.normal_(generator=torch.Generator().manual_seed(seed), std=0.3)
    return model


def answers(model: KnownLaw, side: int, corner: int, values: torch.Tensor) -> torch.Tensor:
    """What is said of site (3, 3) of a lattice where the 3×3 block around it, of side ``corner``,
    is known but for itself."""
    near = [(3 + a) * side + 3 + b for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0)]
    known = torch.zeros(1, side * side)
    known[0, near] = 1
    x = torch.zeros(len(values), side * side, dtype=torch.long)
    x[:, near] = values
    with torch.no_grad():
        return model(model.questions(torch.tensor([3 * side + 3]), known), x)


def test_what_is_near_is_answered_as_on_the_smaller_lattice() -> None:
    small, large = law(6), law(12, seed=1)
    large.carry(small)
    values = torch.randint(2, (50, 8), generator=torch.Generator().manual_seed(2))
    on_small, on_large = (answers(m, s, 1, values) for m, s in ((small, 6), (large, 12)))
    assert torch.allclose(on_small, on_large, atol=1e-5)
    assert float(on_small.std(0).mean()) > 0.01  # which says something


def test_displacements_of_a_smaller_lattice() -> None:
    places, shares = displacements_in(Lattice((4,)), Lattice((10,)))
    assert places[shares > 0].tolist() == [0, 1, 2, 2, 3]
    assert shares.tolist() == [1, 1, 0.5, 0, 0, 0, 0, 0, 0.5, 1]
    places, shares = displacements_in(Lattice((4, 6)), Lattice((4, 6)))
    assert places.tolist() == list(range(24)) and bool((shares == 1).all())


def test_every_weight_is_carried() -> None:
    small, large = law(6).network, law(8, seed=1).network
    large.carry(small, *displacements_in(Lattice((6, 6)), Lattice((8, 8))))
    assert isinstance(large, Gated)
    theirs = dict(small.named_parameters())
    for name, weights in large.named_parameters():
        if weights.shape == theirs[name].shape:
            assert torch.equal(weights, theirs[name]), name
        else:
            assert name in {"read", "linear", "place"}
            assert torch.equal(weights[0], theirs[name][0]), name


@pytest.mark.statistical
def test_a_grown_model_starts_ahead() -> None:
    """Fixed seeds; without the weights of the smaller lattice the variance is three times that."""
    small = tcsis.train(Ising(6, 0.4407), "any-time", steps=150, progress=False)
    target = Ising(10, 0.4407)

    def variance(start: tcsis.Learned | None) -> float:
        model = tcsis.train(target, "any-time", steps=1, start=start, progress=False)
        log_weight = model.sample(1_000, seed=1).log_weight
        assert log_weight is not None
        return float(log_weight.var())

    assert variance(small) < 0.6 * variance(None)


def test_a_run_grows_from_the_lattices_of_its_config() -> None:
    target = Ising(12, 0.3)
    config = tcsis.presets.tiny(target, "any-time").changed(grows=[[6, 6]], num_steps=4)
    model = tcsis.train(target, config=config, progress=False)
    assert model.spent["growing"] > 0 and model.evaluated["growing"] > 0
    alone = tcsis.train(target, config=config.changed(grows=[]), progress=False)
    assert not torch.equal(model.module.network.read, alone.module.network.read)
    again = tcsis.train(target, config=config, progress=False)
    assert torch.equal(model.module.network.read, again.module.network.read)


def test_presets_grow_large_lattices() -> None:
    assert tcsis.presets.fast(Ising(16, 0.44)).grows == ((8, 8),)
    assert tcsis.presets.fast(Potts(16, 3, 1.0)).method.kind == "any-time"
    assert tcsis.presets.fast(Ising(10, 0.44), "any-time").grows == ()
    assert tcsis.presets.tiny(Ising(16, 0.44)).grows == ()
    assert tcsis.presets.fast(Ising(16, 0.44)).buffer.kernel == "swendsen-wang"
    assert tcsis.presets.fast(Ising(16, 0.44, field=0.1)).buffer.kernel == "gibbs"
    assert tcsis.presets.fast(Ising(16, -0.44)).buffer.kernel == "gibbs"


def test_any_method_begins_with_a_model_of_another_temperature() -> None:
    for method in ("autoregressive", "self-normalized", "unbiased", "any-time"):
        config = tcsis.presets.tiny(Ising(4, 0.4), method).changed(num_steps=3)
        warm = tcsis.train(Ising(4, 0.3), config=config, progress=False)
        run = Run(Ising(4, 0.4), config, 0, first=lambda warm=warm: warm.module)
        run.begin()
        assert torch.equal(*(next(m.parameters()) for m in (run.model, warm.module)))


def test_weights_of_another_form_are_refused() -> None:
    config = tcsis.presets.tiny(Ising(4, 0.4), "autoregressive").changed(num_steps=2)
    small = tcsis.train(Ising(4, 0.4), config=config, progress=False)
    with pytest.raises(ValueError, match=r"start has .* expected a model of the same method"):
        tcsis.train(Ising(6, 0.4), config=config, start=small, progress=False)
    with pytest.raises(ValueError, match=r"expected what tcsis\.train returned"):
        tcsis.train(Ising(4, 0.4), config=config, start="runs/ising", progress=False)


def test_a_start_is_refused_before_there_is_work_for_states() -> None:
    config = tcsis.presets.tiny(Ising((4, 6), 0.4), "any-time").changed(num_steps=2)
    wide = tcsis.train(Ising((4, 6), 0.4), config=config, progress=False)
    with pytest.raises(ValueError, match=r"method any-time, and one of the method autoregressive"):
        tcsis.train(Ising((4, 6), 0.4), "autoregressive", "tiny", start=wide, progress=False)
    run = Run(Ising((6, 4), 0.4), config, 0, first=lambda: wide.module)
    with pytest.raises(ValueError, match=r"lattice \(4, 6\) where this is one of \(6, 4\)"):
        run.begin()
    assert run.buffer.states is None


def test_shapes_that_do_not_grow_are_refused() -> None:
    config = tcsis.presets.tiny(Ising(12, 0.3), "any-time")
    with pytest.raises(
        ValueError, match=r"\[\[8, 8\], \[6, 6\]\]: expected .* none of them shorter"
    ):
        config.changed(grows=[[8, 8], [6, 6]])
    with pytest.raises(ValueError, match=r"the method autoregressive: expected \[\]"):
        tcsis.presets.tiny(Ising(12, 0.3), "autoregressive").changed(grows=[[6, 6]])
