"""Locally balanced proposals: look at all neighbours, and propose the promising ones more often.

A move sets one site i to another value v.  It is proposed with probability ∝ g(r) where r is the
ratio p̄(y)/p̄(x), exact or estimated from one gradient, and g is balancing: g(r) = r·g(1/r).  Then
g(r) = √r weighs a move by exp(log r / 2) and Barker's g(r) = r/(1+r) by sigmoid(log r).

Gibbs-with-gradients is the Taylor estimate with √r ("temperature 2"), one flip a step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from tcsis.basics.checks import check_counts
from tcsis.mcmc.kernel import State, accept
from tcsis.noise import draw_categorical
from tcsis.targets.base import Target

Difference = Callable[[Target, Tensor], Tensor]
Balance = Callable[[Tensor], Tensor]


def exact_difference(target: Target, x: Tensor) -> Tensor:
    """log p̄(y) - log p̄(x) for all neighbours y of x, (..., d) -> (..., d, v)."""
    return target.log_ratios(x)


def taylor_difference(target: Target, x: Tensor) -> Tensor:
    """The same to first order, from one gradient."""
    return target.taylor_log_ratios(x)


def square_root(ratios: Tensor) -> Tensor:
    """log g for g(r) = √r."""
    return ratios / 2


barker: Balance = logsigmoid
"""log g for g(r) = r/(1+r)."""


def log_moves(state: State, balance: Balance) -> Tensor:
    """log q of setting site i to v ≠ x_i, normalised over all d·(V-1) moves, (..., d, v)."""
    assert state.ratios is not None
    weights = balance(state.ratios).scatter(-1, state.x[..., None], -torch.inf)
    # from outside the support every way in is equally good
    weights = torch.where(weights.isposinf(), 1e4, weights)
    return weights.flatten(-2).log_softmax(-1).reshape(weights.shape)


def informed_state(target: Target, x: Tensor, difference: Difference) -> State:
    return State(x, target.log_density(x), difference(target, x))


@dataclass(frozen=True)
class LocallyBalanced:
    """Up to ``num_flips`` different sites a step, chosen one after another by the weights at x.

    How many is drawn evenly from 1..num_flips (always two flips would never change the parity of
    the number of ones).  The sites are drawn without replacement, in an order; the way back from y
    is the same sequence reversed, and the two sequences are weighed against each other.
    """

    difference: Difference = taylor_difference
    balance: Balance = square_root
    num_flips: int = 1

    def __post_init__(self) -> None:
        check_counts(num_flips=self.num_flips)

    def init(self, target: Target, x: Tensor) -> State:
        return informed_state(target, x, self.difference)

    def step(
        self, target: Target, state: State, generator: torch.Generator | None
    ) -> tuple[State, Tensor]:
        most = min(self.num_flips, target.num_sites)
        active = draw_active(state.x, most, generator)  # (..., k)
        moves = self.draw_sequence(state, most, generator)  # (..., k) of site·V + value
        sites, values = moves // target.num_values, moves % target.num_values
        old = state.x.gather(-1, sites)
        y = state.x.scatter(-1, sites, torch.where(active, values, old))
        proposed = self.init(target, y)
        back = sites * target.num_values + old
        forward = self.log_sequence(state, moves, active)
        backward = self.log_sequence(proposed, back.flip(-1), active.flip(-1))
        return accept(state, proposed, forward, backward, generator)

    def draw_sequence(self, state: State, most: int, generator: torch.Generator | None) -> Tensor:
        """An ordered choice of ``most`` moves at different sites, (..., k)."""
        weights, chosen = log_moves(state, self.balance), []
        for _ in range(most):
            move = draw_categorical(weights.flatten(-2), generator=generator)
            chosen.append(move)
            weights = without_site(weights, move)
        return torch.stack(chosen, dim=-1)

    def log_sequence(self, state: State, moves: Tensor, active: Tensor) -> Tensor:
        """log probability at ``state`` of the active ``moves`` in turn, (..., k) -> (...)."""
        weights = log_moves(state, self.balance)
        total = weights.new_zeros(moves.shape[:-1])
        for move, used in zip(moves.unbind(-1), active.unbind(-1), strict=True):
            log_q = weights.flatten(-2).log_softmax(-1).gather(-1, move[..., None]).squeeze(-1)
            total = torch.where(used, total + log_q, total)
            weights = torch.where(used[..., None, None], without_site(weights, move), weights)
        return total


def draw_active(x: Tensor, most: int, generator: torch.Generator | None) -> Tensor:
    """Which of ``most`` moves a chain makes: the first n, n even from 1..most, (..., most)."""
    count = torch.randint(1, most + 1, (*x.shape[:-1], 1), device=x.device, generator=generator)
    return torch.arange(most, device=x.device) < count


def without_site(weights: Tensor, move: Tensor) -> Tensor:
    """Move weights (..., d, v) with the site of ``move`` (...) taken out."""
    v = weights.shape[-1]
    index = (move // v)[..., None, None].expand(*move.shape, 1, v)
    return weights.scatter(-2, index, -torch.inf)
