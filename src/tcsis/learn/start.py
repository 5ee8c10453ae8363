"""First weights of a causal network that already know the target.

On a tree the conditionals are known, and linear in what is known of the sites before.  Elsewhere
the linear part and the biases, c_k + A_k z_<k, are fitted to the cross-entropy with the identity's
conditionals on states of the buffer, which is convex; the rest of the network starts from there.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tcsis.learn.models.causal_law import CausalLaw
from tcsis.learn.models.labels import num_seen
from tcsis.learn.models.trees import conditionals
from tcsis.learn.objectives import cross_entropy
from tcsis.targets.pairwise import Pairwise

NUM_FITTED, NUM_ITERATIONS = 4_096, 60
MOST_PRODUCTS = 2e9
"""Products of numbers in one evaluation of the fit; with more, fewer states are used."""
RIDGE = 1e-4


@torch.no_grad()
def set_tree(model: CausalLaw, target: Pairwise, parent: dict[int, int | None]) -> None:
    """Every conditional of a target without cycles, exactly; the order has parents first."""
    network = model.network
    place = {int(site): k for k, site in enumerate(model.order)}
    width = network.in_width
    for site, law in conditionals(target, parent).items():
        odds = law[:, 1:] - law[:, :1]  # (v or 1, v - 1)
        k, above = place[site], parent[site]
        network.bias[k, 0] = odds.mean(0)
        if above is not None:
            slots = slice(place[above] * width, (place[above] + 1) * width)
            # a spin tells two values apart, and centred one-hot vectors any number of them
            network.linear[k, slots] = (odds[1:] - odds[:1]) / 2 if width == 1 else odds


def fit_linear(model: CausalLaw, x: Tensor, log_hat: Tensor) -> None:
    """Linear part and biases to estimates log p̂(x_k = label | others), (b, n, v), at states
    x (b, d), by L-BFGS."""
    network, labels = model.network, model.read(x)
    log_hat = log_hat.double()  # as the loss, whose digits tell when the fit is done
    z, seen = model.embed(labels), num_seen(labels)

    def loss() -> Tensor:
        logits = model.logits(network.linear_part(z), seen)
        entropy = cross_entropy(logits.double().log_softmax(-1), log_hat).mean()
        return entropy + RIDGE * (network.linear * network.before).double().square().sum()

    descend([network.linear, network.bias], loss)


def descend(fitted: list[nn.Parameter], loss: Callable[[], Tensor]) -> None:
    """Take a convex loss of some weights to its least value by L-BFGS."""
    optimiser = torch.optim.LBFGS(
        fitted, max_iter=NUM_ITERATIONS, history_size=10, line_search_fn="strong_wolfe",
        tolerance_change=1e-12,
    )  # fmt: skip

    def closure() -> Tensor:
        optimiser.zero_grad()
        total = loss()
        for weights, slope in zip(fitted, torch.autograd.grad(total, fitted), strict=True):
            weights.grad = slope
        return total.detach()

    optimiser.step(closure)
    optimiser.zero_grad()


def num_fitted(model: CausalLaw) -> int:
    """How many states the fit can afford."""
    return max(256, min(NUM_FITTED, int(MOST_PRODUCTS / model.network.linear.numel())))
