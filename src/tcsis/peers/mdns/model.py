"""The network of MDNS: what the known sites of a state say on the others.

    log s_θ(x)[i, v] = gain·field_i(v) + NN_i(v)            normalised over v

The field is that of the known neighbours where the target is pairwise, else nothing; the network,
dense over all sites, reads tokens of which a masked one is zero, and starts at zero.  It is odd in
the spins of a target that may be turned.  Of one site alone it costs a fraction of the whole, which
is what makes paths of d steps affordable.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from tcsis.basics.frozen import Positive
from tcsis.learn.descent import first_weights
from tcsis.learn.models.diffusion import Gain, mean_field, no_field
from tcsis.learn.models.known_law import slots_of
from tcsis.learn.nn.dense import DenseNet
from tcsis.learn.nn.dit import zero_init
from tcsis.peers.mdns.objectives import AnyObjective, DenoisingCrossEntropy
from tcsis.peers.peer import PeerConfig
from tcsis.peers.values import channels, num_channels
from tcsis.targets.base import Target
from tcsis.targets.pairwise import Pairwise


class MdnsConfig(PeerConfig):
    """A training run of MDNS.

    The target is heated at first: its inverse temperature grows from ``first_beta`` to 1 over
    ``warm_share`` of the training.
    """

    kind: Literal["mdns"] = "mdns"
    width: Positive = 32
    depth: Positive = 2
    objective: AnyObjective = DenoisingCrossEntropy()
    learning_rate: Annotated[float, Field(gt=0)] = 3e-3
    first_beta: Annotated[float, Field(gt=0, le=1)] = 0.5
    warm_share: Annotated[float, Field(gt=0, le=1)] = 0.25
    num_steps: Positive = 3_000


class Unmasker(nn.Module):
    """log s_θ: tokens (b, d), and which of them are known (b, d) -> (b, d, v)."""

    def __init__(self, target: Target, width: int, depth: int) -> None:
        super().__init__()
        v, odd = target.num_values, target.symmetries.flip
        self.num_values = v
        self.trunk = DenseNet(slots_of(target), num_channels(v), width, depth, odd=odd)
        self.head = zero_init(nn.Linear(width, 1 if v == 2 else v, bias=not odd))
        self.gain = Gain()
        self.field = mean_field(target) if isinstance(target, Pairwise) else no_field(target)

    def forward(self, x: Tensor, known: Tensor) -> Tensor:
        alpha = known.to(self.head.weight.dtype)
        said = self.said(self.trunk(self.read(x, alpha), alpha))
        return (said + self.pull(x, alpha)).log_softmax(-1)

    def at(self, x: Tensor, known: Tensor, site: Tensor) -> Tensor:
        alpha = known.to(self.head.weight.dtype)
        said = self.said(self.trunk.at(self.read(x, alpha), alpha, site))
        pull = self.pull(x, alpha)
        index = site[:, None, None].expand(-1, 1, self.num_values)
        return (said + pull.gather(1, index).squeeze(1)).log_softmax(-1)

    def read(self, x: Tensor, alpha: Tensor) -> Tensor:
        """(b, d, c), zero where nothing is known."""
        return alpha[..., None] * channels(x, self.num_values, alpha.dtype)

    def said(self, h: Tensor) -> Tensor:
        """Features to logits, (..., width) -> (..., v)."""
        answer = self.head(h)
        return torch.cat([-answer, answer], -1) if self.num_values == 2 else answer

    def pull(self, x: Tensor, alpha: Tensor) -> Tensor:
        """gain·field, (b, d, v)."""
        return self.gain(alpha.mean(1)) * self.field(x, alpha).to(alpha.dtype)


def make_model(config: MdnsConfig, target: Target, seed: int) -> Unmasker:
    """The model with its first weights, which depend on the seed alone."""
    with first_weights(seed):
        model = Unmasker(target, config.width, config.depth)
    return model.to(target.device)
