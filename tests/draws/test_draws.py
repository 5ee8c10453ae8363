import math
import re

import pytest
import torch

from tcsis.draws import Draws, Sampler, concatenate, systematic_resample


def test_weights() -> None:
    """Weights 1, 2, 3, 6 (mean 3) in logarithms, with an offset that must not matter."""
    weight = torch.tensor([1.0, 2.0, 3.0, 6.0]).double().log() + 1e4
    draws = Draws(torch.zeros(4, 2, dtype=torch.uint8), weight)
    assert draws.log_z == pytest.approx(1e4 + math.log(3))
    assert draws.ess == pytest.approx(144 / (4 * 50))
    assert draws.elbo == pytest.approx(1e4 + math.log(36) / 4)
    assert draws.elbo < draws.log_z
    assert draws.log_z_error == pytest.approx(math.sqrt((1 / 0.72 - 1) / 4))


def test_without_weights() -> None:
    draws = Draws(torch.zeros(3, 5, 2, dtype=torch.uint8))
    assert (draws.ess, draws.log_z, draws.elbo, draws.log_z_error) == (None,) * 4
    assert draws.flat.x.shape == (15, 2)
    assert len(draws[:2]) == 2


def test_concatenate_and_export() -> None:
    x, weight = torch.arange(6).reshape(3, 2), torch.zeros(3)
    a = Draws(x, weight, seconds=1.0, num_density_calls=3)
    both = concatenate([a, a[torch.tensor([2, 0])]])
    assert both.x[3:].tolist() == [[4, 5], [0, 1]]
    assert (both.seconds, both.num_density_calls) == (2.0, 6.0)
    assert {name: part.shape for name, part in both.to_numpy().items()} == {
        "x": (5, 2), "log_weight": (5,),
    }  # fmt: skip


def test_resample_takes_draws_by_weight() -> None:
    """Weights 0, 1, 2, 0, 5 of 8: of 800 draws exactly 0, 100, 200, 0, 500, whatever the seed."""
    weight = torch.tensor([0.0, 1.0, 2.0, 0.0, 5.0]).log() - 1e4
    x = torch.arange(5).to(torch.uint8)[:, None].expand(5, 2)
    draws = Draws(x, weight, seconds=2.0, num_density_calls=7.0, num_network_calls=9.0)
    chosen = draws.resample(800, seed=3)
    assert chosen.x.shape == (800, 2)
    assert chosen.x.dtype == torch.uint8
    assert torch.bincount(chosen.x[:, 0].long(), minlength=5).tolist() == [0, 100, 200, 0, 500]
    assert chosen.log_weight is None
    costs = (chosen.seconds, chosen.num_density_calls, chosen.num_network_calls)
    assert costs == (2.0, 7.0, 9.0)
    # in random order: a slice is as good as any other; 1 has 12 ± 3.3 of the first 100
    assert 2 <= int((chosen.x[:100, 0] == 1).sum()) <= 25
    assert torch.equal(chosen.x, draws.resample(800, seed=3).x)
    assert not torch.equal(chosen.x, draws.resample(800, seed=4).x)
    generator = torch.Generator().manual_seed(0)
    assert len(draws.resample(generator=generator)) == 5


def test_resample_lays_chains_end_to_end() -> None:
    x = torch.arange(6).reshape(2, 3, 1)
    assert set(Draws(x, torch.zeros(2, 3)).resample().x.flatten().tolist()) == set(range(6))


@pytest.mark.statistical
def test_resample_is_right_on_average() -> None:
    """Draw i comes n·w_i times in the mean: 3 of 10 in 2,000 seeds, each mean within 4.5 standard
    errors.  One false alarm in 15,000."""
    weight = torch.rand(10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    draws = Draws(torch.arange(10)[:, None], weight.log())
    taken = torch.stack(
        [torch.bincount(draws.resample(3, seed=s).x[:, 0], minlength=10) for s in range(2_000)]
    ).double()
    error = taken.std(0) / math.sqrt(len(taken))
    assert ((taken.mean(0) - 3 * weight / weight.sum()).abs() < 4.5 * error).all()


def test_the_last_tooth_never_falls_behind_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shift that rounds to one: the index at the end has no weight and must not be taken."""
    monkeypatch.setattr(torch, "rand", lambda *shape, **kw: torch.ones(*shape, dtype=kw["dtype"]))
    taken = systematic_resample(torch.tensor([0.0, 0.0, -torch.inf, -torch.inf]))
    assert taken.tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: Draws(x[0]), "x has shape (2,)"),
        (lambda x: Draws(x, torch.zeros(2)), "log_weight has shape (2,): expected (3,)"),
        (lambda x: concatenate([]), "draws is empty"),
        (lambda x: concatenate([Draws(x), Draws(x, torch.zeros(3))]), "mixes weighted"),
        (lambda x: Draws(x).resample(), "draws carry no log_weight: expected weighted draws"),
        (
            lambda x: Draws(x, torch.full((3,), -torch.inf)).resample(),
            "the largest log_weight is -inf: expected a finite one",
        ),
        (lambda x: Draws(x, torch.zeros(3)).resample(0), "n is 0"),
    ],
)
def test_bad_draws(call, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call(torch.zeros(3, 2))


def test_whatever_samples_is_a_sampler() -> None:
    class Coins:
        def sample(self, n: int, *, seed: int = 0) -> Draws:
            generator = torch.Generator().manual_seed(seed)
            return Draws(torch.randint(2, (n, 3), generator=generator).to(torch.uint8))

    assert isinstance(Coins(), Sampler)
    assert not isinstance(Draws(torch.zeros(3, 2)), Sampler)
