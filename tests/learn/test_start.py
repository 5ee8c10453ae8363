"""First weights: the linear part fitted to what the identity says of every conditional."""

import pytest
import torch
from torch import Tensor

from tcsis import exact
from tcsis.exact import Enumeration
from tcsis.judging.metrics import state_index
from tcsis.learn.asks import RATIOS
from tcsis.learn.autoregressive import Autoregressive, site_laws
from tcsis.learn.buffers import Buffer, Uniform
from tcsis.learn.models.causal_law import CausalLaw
from tcsis.learn.models.trees import parents
from tcsis.learn.objectives import cross_entropy
from tcsis.learn.start import NUM_FITTED, RIDGE, fit_linear, num_fitted
from tcsis.targets import Pairwise, Target

DOUBLE = {"dtype": torch.float64}


class Plain(Target):
    """A target of whose structure nothing is known."""

    def __init__(self, inner: Target):
        self.inner, self.num_sites, self.num_values = inner, inner.num_sites, inner.num_values
        self._place(inner.device, inner.dtype)

    def _log_density(self, x: Tensor) -> Tensor:
        return self.inner._log_density(x)


def chain(d: int, v: int, coupled: float = 1.0) -> Pairwise:
    generator = torch.Generator().manual_seed(0)
    edges = torch.tensor([[i, i + 1] for i in range(d - 1)])
    tables = coupled * torch.randn(d - 1, v, v, generator=generator, **DOUBLE)
    return Pairwise(edges, tables, torch.randn(d, v, generator=generator, **DOUBLE), **DOUBLE)


def log_conditionals(target: Target, order: Tensor) -> Tensor:
    """log p(x_k = v | x_<k) at every state, (N, d, v), by sums over all of them."""
    table, v = Enumeration(target), target.num_values
    x = table.states(torch.arange(table.num_states))
    rows = []
    for k in range(len(order)):
        key = state_index(x[:, order[: k + 1]], v) if k else x[:, order[0]]
        total = torch.zeros(v ** (k + 1), **DOUBLE).index_add(0, key, table.p)
        joint = total.reshape(-1, v)
        rows.append((joint / joint.sum(1, keepdim=True)).log()[key // v])
    return torch.stack(rows, 1)


@pytest.mark.parametrize(("d", "v"), [(7, 2), (5, 3)])
def test_linear_conditionals_are_found(d: int, v: int) -> None:
    """On a chain in its order they are linear, so that the least KL is zero but for the ridge."""
    target = chain(d, v)
    model = CausalLaw(v, torch.arange(d), None, Autoregressive().model(target).labels, 4).double()
    table = Enumeration(target)
    x = table.states(torch.arange(table.num_states))
    log_p = log_conditionals(target, model.order)

    def divergence() -> float:
        return float(cross_entropy(model.conditionals(model.read(x)), log_p).mean().detach())

    before = divergence()
    fit_linear(model, x, log_p)
    assert divergence() < 0.01 < before / 10
    assert model.network.linear.grad is None or not model.network.linear.grad.any()
    # what is not linear is left as it was
    assert not model.network.readout.any()


def test_the_fit_is_the_minimum() -> None:
    """No slope is left in the cross-entropy with its ridge, nor is any step down."""
    target = Plain(chain(6, 3))
    model = Autoregressive(width=4).model(target).double()
    x = exact.draw(target, 1_000, seed=0).x.long()
    log_hat = site_laws(model, RATIOS, target, x)
    fit_linear(model, x, log_hat)
    network = model.network

    def total() -> Tensor:
        fitted = cross_entropy(model.conditionals(model.read(x)), log_hat).mean()
        return fitted + RIDGE * (network.linear * network.before).square().sum()

    least = total()
    slopes = torch.autograd.grad(least, [network.linear, network.bias])
    assert max(float(slope.abs().max()) for slope in slopes) < 2e-3
    generator = torch.Generator().manual_seed(1)
    for weights in (network.linear, network.bias):
        step = 0.1 * torch.randn(weights.shape, generator=generator, **DOUBLE)
        with torch.no_grad():
            for sign in (1, -1):
                weights += sign * step
                assert total() > least
                weights -= sign * step


@pytest.mark.parametrize(("d", "v"), [(8, 2), (5, 3)])
def test_uncoupled_sites_are_exact(d: int, v: int) -> None:
    """Though nothing is known of the target, and the buffer is noise."""
    target = Plain(chain(d, v, coupled=0.0))
    assert parents(target) is None
    method = Autoregressive(width=4)
    model, generator = method.model(target), torch.Generator().manual_seed(0)
    buffer = Buffer(Uniform(size=500), target)
    buffer.start(generator)
    table = Enumeration(target)
    x = table.states(torch.arange(table.num_states))
    assert float((model.log_weight(target, x) - table.log_z).abs().max()) > 1
    method.prepare(model, target, buffer, generator)
    assert float((model.log_weight(target, x) - table.log_z).abs().max()) < 1e-4


def test_large_models_are_fitted_to_fewer_states() -> None:
    small, large = (
        CausalLaw(2, torch.arange(d), None, Autoregressive().model(chain(2, 2)).labels, 1)
        for d in (10, 1_500)
    )
    assert num_fitted(small) == NUM_FITTED
    assert 256 <= num_fitted(large) < NUM_FITTED
