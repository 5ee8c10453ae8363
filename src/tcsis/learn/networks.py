"""Which trunk a model has, as a setting: each makes features of every site for a target.

``Convolutions`` sees the neighbourhood on a lattice, ``Dense`` and ``Transformer`` all sites, and
``GraphTransformer`` the neighbours on a graph.  The modules themselves are in ``tcsis.learn.nn``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from tcsis.basics.frozen import Frozen, Positive
from tcsis.learn.models import symmetry
from tcsis.learn.models.diffusion import Field as SiteField
from tcsis.learn.models.diffusion import (
    LogitNetwork,
    SiteNetwork,
    SpinNetwork,
    in_width,
    known_field,
)
from tcsis.learn.models.heads import FormHeads, Heads, SpinHeads
from tcsis.learn.models.known_law import slots_of
from tcsis.learn.nn.dense import DenseNet
from tcsis.learn.nn.dit import DiT, chain_dit, graph_dit, lattice_dit, set_dit
from tcsis.learn.nn.lattice import LatticeNet
from tcsis.targets.base import Target


class Trunk(Frozen, ABC):
    """(b, d, in_width) and α (b, d) -> features (b, d, width)."""

    kind: str
    width: Positive
    depth: Positive = 4

    @abstractmethod
    def trunk(self, target: Target, in_width: int) -> nn.Module: ...

    def sites(self, target: Target, field: SiteField, *, alike: bool) -> LogitNetwork:
        """Logits of every site, with the field as a skip term; ``alike`` says whether the symmetry
        of the values is to be built in."""
        v = target.num_values
        symmetrise = symmetry.of_values(v) if alike else symmetry.as_it_is
        return SiteNetwork(self.trunk(target, in_width(v)), self.width, v, field, symmetrise)

    def form_heads(
        self, target: Target, forms: list[list[int]], fields: Sequence[SiteField]
    ) -> Heads:
        """What is learned of marginal and denoiser, the mean over all ``forms``, with the fields as
        skip terms of the denoiser."""
        v = target.num_values
        return FormHeads(self.trunk(target, v + 1), self.width, v, forms, fields)

    def two_heads(
        self, target: Target, forms: list[list[int]], fields: Sequence[SiteField]
    ) -> Heads:
        """The same where estimates train the denoiser as well."""
        return self.form_heads(target, forms, fields)


class Convolutions(Trunk):
    """Periodic 3^k convolutions with a pooled feature, for lattices of up to three dimensions."""

    kind: Literal["lattice"] = "lattice"

    def trunk(self, target: Target, in_width: int) -> LatticeNet:
        lattice = target.lattice
        if lattice is None:
            raise ValueError(f"{target} has no lattice: expected network dit, dense or graph")
        return LatticeNet(
            lattice.shape, in_width, self.width, self.depth,
            periodic=lattice.periodic, sites=not target.symmetries.translations,
        )  # fmt: skip


class Dense(Trunk):
    """One layer over all sites and then ``depth`` at every site by itself; of two values it reads
    spins, and is odd in them if the target does not tell them apart."""

    kind: Literal["dense"] = "dense"
    depth: Positive = 2

    def trunk(self, target: Target, in_width: int) -> DenseNet:
        return DenseNet(slots_of(target), in_width, self.width, self.depth)

    def sites(self, target: Target, field: SiteField, *, alike: bool) -> LogitNetwork:
        if target.num_values > 2:
            return super().sites(target, field, alike=alike)
        trunk = DenseNet(slots_of(target), 1, self.width, self.depth, odd=alike)
        return SpinNetwork(trunk, self.width, field)

    def two_heads(
        self, target: Target, forms: list[list[int]], fields: Sequence[SiteField]
    ) -> Heads:
        """Of spins those of the self-normalized model, with the field that costs least: the network
        makes up for the difference, and draws are faster by it."""
        if target.num_values > 2:
            return self.form_heads(target, forms, fields)
        network = self.sites(target, known_field(target), alike=len(forms) > 1)
        assert isinstance(network, SpinNetwork)
        return SpinHeads(network, self.width)


class Transformer(Trunk):
    """The paper's DiT, with positions as the target has them: on its lattice, or none but the site
    itself."""

    kind: Literal["dit"] = "dit"
    heads: Positive = 4

    def trunk(self, target: Target, in_width: int) -> DiT:
        sizes = (in_width, self.width, self.depth, self.heads)
        if target.lattice is None:
            return set_dit(target.num_sites, *sizes)
        if len(target.lattice.shape) == 1 and not target.lattice.periodic:
            return chain_dit(target.num_sites, *sizes)
        return lattice_dit(target.lattice.shape, *sizes, periodic=target.lattice.periodic)


class GraphTransformer(Trunk):
    """A transformer in which sites attend to those they interact with."""

    kind: Literal["graph"] = "graph"
    heads: Positive = 4

    def trunk(self, target: Target, in_width: int) -> DiT:
        return graph_dit(adjacency(target), in_width, self.width, self.depth, self.heads)


AnyTrunk = Annotated[
    Convolutions | Dense | Transformer | GraphTransformer, Field(discriminator="kind")
]


def adjacency(target: Target) -> Tensor:
    """(d, d) bool, True where two sites interact."""
    if target.pairs is None:
        raise ValueError(f"{target} is not pairwise: expected network dit")
    near = torch.zeros(target.num_sites, target.num_sites, dtype=torch.bool)
    near[target.pairs[:, 0], target.pairs[:, 1]] = True
    return near | near.T
