import math
import re

import pytest
import torch

from tcsis.draws import Draws, Sampler, concatenate


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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: Draws(x[0]), "x has shape (2,)"),
        (lambda x: Draws(x, torch.zeros(2)), "log_weight has shape (2,): expected (3,)"),
        (lambda x: concatenate([]), "draws is empty"),
        (lambda x: concatenate([Draws(x), Draws(x, torch.zeros(3))]), "mixes weighted"),
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
