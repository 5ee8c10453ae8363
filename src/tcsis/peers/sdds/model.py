"""The network of SDDS: what the other noisy sites say on a site of x_0, carried on to x_{t-1}.

    c_i(u) = softmax_u( gain(α_t)·field_i(u) + NN_i(x_t, α_t)(u) )
    q(x_{t-1}^i = v | x_t) ∝ p(x_t^i | v)·Σ_u k_{t-1}(v | u)·c_i(u)

k_{t-1} has a share α_{t-1} of x_0 left.  The paper's network gives the logits of x_{t-1} at once;
this way they are right at small noise before anything is learned, and within reach at any.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from tcsis.basics.frozen import Positive
from tcsis.learn.descent import first_weights
from tcsis.learn.models.diffusion import LogitNetwork, known_field
from tcsis.learn.networks import AnyTrunk, Dense
from tcsis.learn.presets import sees_all_alike, site_network
from tcsis.noise import UniformNoise
from tcsis.peers.peer import PeerConfig
from tcsis.peers.sdds.chain import FlipNoise
from tcsis.peers.sdds.objectives import AnyObjective, ReverseKL
from tcsis.targets.base import Target


class SddsConfig(PeerConfig):
    """A training run of SDDS.

    Every ``refresh_every`` steps ``num_paths`` paths are drawn anew; a batch takes ``batch_size``
    of their steps.  The temperature falls from ``first_temperature`` to one over the first half of
    training.  ``chain_length``, the T of the chain and the calls of a draw, and ``network`` follow
    from the target where they are None.
    """

    kind: Literal["sdds"] = "sdds"
    objective: AnyObjective = Field(default_factory=ReverseKL)
    chain_length: Annotated[int, Field(ge=2)] | None = None
    network: AnyTrunk | None = None
    num_paths: Annotated[int, Field(ge=4)] = 128
    batch_size: Positive = 512
    refresh_every: Positive = 4
    first_temperature: Annotated[float, Field(ge=1)] = 1.0
    num_steps: Positive = 1_000


class ReverseNetwork(nn.Module):
    """x_t (b, d) and steps t (b,), or (1,) for all -> logits of x_{t-1}^i = 1, (b, d)."""

    def __init__(self, network: LogitNetwork, noise: FlipNoise) -> None:
        super().__init__()
        self.network, self.noise = network, noise

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        t = t.double()[:, None]
        c = self.network(x, self.noise.alpha(t).expand(-1, x.shape[1])).log_softmax(-1)
        left = self.noise.alpha(t - 1)[..., None]
        stay, move = (part.to(c.dtype) for part in UniformNoise(2).log_stay_move(left))
        before = torch.logaddexp(stay + c, move + c.flip(-1))
        odds = torch.log(1 / self.noise.flip(t) - 1).to(c.dtype)
        return before[..., 1] - before[..., 0] + (2 * x - 1) * odds


# -- construction ----------------------------------------------------------------------------------


def make_model(config: SddsConfig, target: Target, seed: int) -> ReverseNetwork:
    """The model with its first weights, which depend on the seed alone."""
    if target.num_values != 2:
        raise ValueError(
            f"{target} has {target.num_values} values a site: expected 2, which SDDS flips; "
            "LEAPS and DNFS take any number"
        )
    noise = FlipNoise(config.chain_length or default_length(target))
    trunk = config.network or default_network(target)
    with first_weights(seed):
        network = trunk.sites(target, known_field(target), alike=target.symmetries.flip)
    return ReverseNetwork(network, noise).to(target.device)


def default_network(target: Target) -> AnyTrunk:
    return Dense(width=64) if sees_all_alike(target) else site_network(target, width=16)


def default_length(target: Target) -> int:
    return 24 if target.num_sites <= 36 else 64
