"""The causal network: who reads whom, and one site at a time against all at once."""

from collections.abc import Callable

import pytest
import torch

from tcsis.learn.nn.causal import Causal

SITES, CHANNELS, VALUES = 5, 2, 3


@pytest.fixture
def network(awake: Callable) -> Causal:
    return awake(Causal(SITES, CHANNELS, VALUES, width=8))


def inputs() -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(4, SITES, CHANNELS, generator=generator, dtype=torch.float64)


def test_rows_read_earlier_sites_and_no_others(network: Causal) -> None:
    z = inputs().requires_grad_()
    logits = network(z)
    assert logits.shape == (4, SITES, VALUES)
    for k in range(SITES):
        (slope,) = torch.autograd.grad(logits[:, k].square().sum(), z, retain_graph=True)
        assert bool((slope[:, k:] == 0).all())
        assert bool((slope[:, :k] != 0).all())


def test_one_site_is_its_row(network: Causal) -> None:
    z = inputs()
    rows = [network.site(k, z[:, :k]) for k in range(SITES)]
    torch.testing.assert_close(torch.stack(rows, 1), network(z), rtol=0, atol=1e-12)


def test_it_starts_at_equal_values_and_learns() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = Causal(SITES, CHANNELS, VALUES, width=8)
    logits = network(inputs().float())
    assert torch.equal(logits, torch.zeros_like(logits))
    (logits - 1).square().sum().backward()
    for weights in (network.readout, network.linear, network.bias):
        assert weights.grad is not None and weights.grad.abs().max() > 0
