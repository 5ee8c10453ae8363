"""The mixture over a crowd of states, against sums written out, and as a skip term."""

import pytest
import torch
from torch import Tensor

from tcsis import exact
from tcsis.learn import presets
from tcsis.learn.models.crowd import Crowd
from tcsis.learn.models.marginal import MarginalModel
from tcsis.noise import UniformNoise
from tcsis.targets import Ising, Target


def some(num_values: int, *shape: int, seed: int = 0) -> Tensor:
    return torch.randint(num_values, shape, generator=torch.Generator().manual_seed(seed))


def times(*shape: int) -> Tensor:
    drawn = torch.rand(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return 0.1 + 0.8 * drawn  # a time of its own for every site


@pytest.mark.parametrize("num_values", [2, 3])
def test_the_mixture_and_its_cavity_by_hand(num_values: int) -> None:
    noise, d = UniformNoise(num_values), 5
    crowd = Crowd(noise, d, 7, [list(range(num_values))])
    crowd.gather(some(num_values, 7, d), 2.5)
    x, t = some(num_values, 6, d, seed=1), times(6, d)
    alpha = noise.alpha(x, t)
    per_site = noise.log_kernel(x, t)  # log k(u | x_i) = log k(x_i | u)
    log_k = torch.stack(
        [per_site.gather(-1, m.expand(6, d)[..., None]).squeeze(-1) for m in crowd.states], 1
    )  # (b, m, d)
    by_hand = 2.5 + log_k.sum(-1).exp().mean(1).log()
    torch.testing.assert_close(crowd(x, alpha), by_hand)
    for site in range(d):
        rest = (log_k.sum(-1) - log_k[..., site]).exp()  # (b, m)
        held = torch.stack(
            [(rest * (crowd.states[:, site] == u)).sum(1) for u in range(num_values)], -1
        )
        cavity = crowd.cavity(x, alpha)[:, site].exp()
        torch.testing.assert_close(
            cavity / cavity.sum(-1, keepdim=True), held / held.sum(-1, keepdim=True),
            rtol=1e-3, atol=1e-4,
        )  # fmt: skip


def model_of(target: Target) -> MarginalModel:
    config = presets.tiny(target, "unbiased")
    model = config.new_model(target, seed=0).double().requires_grad_(False)
    assert isinstance(model, MarginalModel)
    assert model.crowd is not None
    crowd_shape = model.crowd.states.shape
    model.crowd.gather(some(target.num_values, *crowd_shape, seed=5), 1.5)
    model.coefficients.values.add_(0.2)
    return model


def test_relabelled_states_have_the_same_density() -> None:
    model = model_of(Ising(3, 0.4, dtype=torch.float64))
    x = some(2, 8, 9, seed=2)
    t = times(8, 1).expand(x.shape)
    torch.testing.assert_close(model.log_marginal(x, t), model.log_marginal(1 - x, t))


def test_a_crowd_of_the_target_is_right_in_the_noise() -> None:
    """At β = 0.6 a crowd of exact draws has the marginal of a half-known state nearly right before
    any training, which log p̄ alone has not."""
    target = Ising(3, 0.6, dtype=torch.float64)
    truth = exact.Enumeration(target)
    noise = UniformNoise(2)
    x_0 = exact.draw(target, 300, seed=1).x.long()
    t = torch.full((300, 1), 0.6, dtype=torch.float64).expand(300, 9)
    x = noise.draw(x_0, t, generator=torch.Generator().manual_seed(2))
    states = truth.states(torch.arange(2**9))
    log_p = target.log_density(states)
    joint = torch.stack([noise.log_prob(y.expand_as(states), states, 0.6) for y in x])
    log_p_t = (joint + log_p).logsumexp(1)
    crowd = Crowd(noise, 9, 256, [[0, 1], [1, 0]])
    crowd.gather(exact.draw(target, 256, seed=3).x.long(), truth.log_z)
    said = crowd(x, noise.alpha(x, t))
    assert float((said - log_p_t).square().mean().sqrt()) < 0.1
    assert float((target.log_density(x) - log_p_t).std()) > 1
