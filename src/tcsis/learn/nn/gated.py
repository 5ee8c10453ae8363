"""A network that answers for one site from whatever is known of the others.

What is known sets the weights, and these read the values.  For a site asked about, with α_j how far
site j is known (0 not at all, 1 altogether), z_j what its value says, and a first guess
m = Σ_j b_j z_j + b_0 that is linear in what is known,

    g, s     = MLP(α as seen from the site, spread of the guess)             gates and shifts
    a        = tanh(g₁·Σ_j α_j W_j z_j + g₆·p·m + s₁)
    h        = tanh(W' (g₂·a) + P mean(g₂·a) + s₂)                           mean over equal values
    answer   = C (g₃·Σ_j α_j W_j z_j + g₄·a + g₅·h) + Σ_j α_j A_j z_j + (1 + g)·m + c

W_j and A_j belong to the place of j as seen from the site: with translations, to the displacement.
All that does not depend on the values is worked out once for any number of states (``Weights``).
Without shifts, b_0 and c the answer is odd in z; P is there where values are equal.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

NUM_GATES, NUM_SHIFTS = 6, 2
GATE_WIDTH = 4
"""Gates are worked out once for a whole batch, so that their network may be this much wider where
all sites share it; where each has weights of its own, gates have less to tell and learn better
without."""


@dataclass(frozen=True)
class Guess:
    """First guesses of n answers, linear in the numbers read: ``coefficients`` (n, r·c, o),
    ``offset`` (n, o), and how uncertain they are, the logarithm of a variance (n,)."""

    coefficients: Tensor
    offset: Tensor
    log_variance: Tensor


@dataclass(frozen=True)
class Weights:
    """The network for n questions, each of which reads r sites: products that are left to do."""

    first: Tensor  # (n, r·c, h)
    second: Tensor  # (n, h, h)
    pooled: Tensor  # (n, h, h), or nothing where there are no equal values
    from_z: Tensor  # (n, r·c, o)
    from_a: Tensor  # (n, h, o)
    from_h: Tensor  # (n, h, o)
    shifts: tuple[Tensor, Tensor, Tensor]  # (n, 1, h), (n, 1, h) and (n, 1, o)

    def __getitem__(self, some: slice) -> Weights:
        """The network for some of the questions."""
        shifts = tuple(shift[some] for shift in self.shifts)
        return Weights(
            self.first[some], self.second[some], self.pooled[some], self.from_z[some],
            self.from_a[some], self.from_h[some], (shifts[0], shifts[1], shifts[2]),
        )  # fmt: skip

    def reading(self, count: int) -> Weights:
        """The same where the first ``count`` numbers of every z are all there is."""
        return Weights(
            self.first[:, :count], self.second, self.pooled, self.from_z[:, :count],
            self.from_a, self.from_h, self.shifts,
        )  # fmt: skip

    def __call__(self, z: Tensor) -> Tensor:
        """Answers of b states with k equal values each, (n, b, k, r·c) -> (n, b, k, o)."""
        n, b, k, width = z.shape
        z = z.reshape(n, b * k, width)
        a = torch.baddbmm(self.shifts[0], z, self.first).tanh()
        inner = torch.baddbmm(self.shifts[1], a, self.second)
        if k > 1:
            mean = a.reshape(n, b, k, -1).mean(2) @ self.pooled
            inner = (inner.reshape(n, b, k, -1) + mean[:, :, None]).reshape(inner.shape)
        answer = torch.baddbmm(self.shifts[2], z, self.from_z)
        answer = answer + a @ self.from_a + inner.tanh() @ self.from_h
        return answer.reshape(n, b, k, -1)


class Gated(nn.Module):
    """``slots`` (d, d) names the weights with which a site reads another, row·d + place: sites that
    see the others alike share a row.  ``in_width`` numbers tell a value, ``out_width`` answer."""

    slots: Tensor

    def __init__(
        self, slots: Tensor, in_width: int, out_width: int, width: int, *, odd: bool, equal: bool
    ):
        """``odd``: no shifts and no biases.  ``equal``: several equal values, which need no biases
        and know of each other."""
        super().__init__()
        d, c, o, h = len(slots), in_width, out_width, width
        rows = int(slots.max()) // d + 1
        self.width, self.num_shifts = width, 0 if odd else NUM_SHIFTS
        self.register_buffer("slots", slots, persistent=False)
        self.read = nn.Parameter(torch.randn(rows * d, c, h) / (d * c) ** 0.5)
        self.mix = nn.Parameter(torch.randn(rows, h, h) / h**0.5)
        self.pool = nn.Parameter(torch.zeros(h if equal else 0, h))
        self.answer = nn.Parameter(torch.randn(rows, h, o) / h**0.5)
        self.linear = nn.Parameter(torch.zeros(rows * d, c, o))
        self.bias = nn.Parameter(torch.zeros(0 if odd or equal else rows, 1, o))
        self.guessed = nn.Parameter(torch.randn(o, h))
        g = GATE_WIDTH * h if rows == 1 else h
        self.place = nn.Parameter(torch.randn(d + 1, g) / d**0.5)
        self.row = nn.Parameter(torch.zeros(rows, g))
        self.hidden = nn.Linear(g, g)
        self.gates = nn.Linear(g, (NUM_GATES + self.num_shifts) * h + 1)
        nn.init.zeros_(self.gates.weight)
        nn.init.zeros_(self.gates.bias)
        with torch.no_grad():  # the first two gates are open, and the guess alone is answered
            self.gates.bias[: 2 * h] = 1

    def weights(self, sites: Tensor, known: Tensor, read: Tensor, guess: Guess) -> Weights:
        """The network for questions about ``sites`` (n,) that know the sites by ``known`` (n, d)
        and read those named in ``read`` (n, r)."""
        opened = self.opened(sites, known, guess.log_variance)
        sizes = [self.width] * (NUM_GATES + self.num_shifts)
        g1, g2, g3, g4, g5, g6, *shifts, g = opened.split([*sizes, 1], -1)
        first = self.seen_from(self.read, sites, known, read)
        linear, bias = self.linear_part(sites, known, read, guess, 1 + g)
        row = self.slots[sites, 0] // len(self.slots)
        answer, inner = self.answer[row], g6[:, None] * self.guessed  # (n, h, o) and (n, o, h)
        s1, s2 = shifts or (torch.zeros_like(g1), torch.zeros_like(g2))
        return Weights(
            torch.baddbmm(first * g1[:, None], guess.coefficients, inner),
            g2[..., None] * self.mix[row],
            g2[:, : len(self.pool), None] * self.pool,
            torch.baddbmm(linear, first, g3[..., None] * answer),
            g4[..., None] * answer,
            g5[..., None] * answer,
            (torch.baddbmm(s1[:, None], guess.offset[:, None], inner), s2[:, None], bias),
        )

    def linear_part(
        self, sites: Tensor, known: Tensor, read: Tensor, guess: Guess, gain: Tensor
    ) -> tuple[Tensor, Tensor]:
        """α_j A_j + gain·b_j and c + gain·b_0 of the questions, (n, r·c, o) and (n, 1, o), with a
        gain (n, 1) of the guess."""
        linear = self.seen_from(self.linear, sites, known, read)
        bias = (gain * guess.offset)[:, None]
        if len(self.bias):
            bias = bias + self.bias[self.slots[sites, 0] // len(self.slots)]
        return linear + gain[..., None] * guess.coefficients, bias

    def seen_from(self, weights: Tensor, sites: Tensor, known: Tensor, read: Tensor) -> Tensor:
        """α_j times the weights with which each question reads j, (n, r·c, w)."""
        alpha = known.gather(1, read)[..., None, None]  # (n, r, 1, 1)
        return (weights[self.slots[sites[:, None], read]] * alpha).flatten(1, 2)

    def opened(self, sites: Tensor, known: Tensor, log_variance: Tensor) -> Tensor:
        """Gates and shifts from what is known, as seen from each site, (n, 6h + 1) and 2h more
        with shifts."""
        slots, d = self.slots[sites], len(self.slots)
        seen = torch.zeros_like(known).scatter(1, slots % d, known)
        seen = torch.cat([seen, log_variance[:, None]], 1)
        inner = silu(seen @ self.place + self.row[slots[:, 0] // d])
        return self.gates(silu(self.hidden(inner)))

    @torch.no_grad()
    def carry(self, other: Gated, places: Tensor, shares: Tensor) -> None:
        """Take the weights of another network of one row: where place j of this one is at
        ``places`` (d,) of the other, its share ``shares`` (d,) of them, and none where that is
        zero."""
        for own, by_place in ((self.read, other.read), (self.linear, other.linear)):
            own.copy_(by_place[places] * shares[:, None, None])
        self.place[:-1].copy_(other.place[:-1][places] * shares[:, None])
        self.place[-1].copy_(other.place[-1])
        carried = {"read", "linear", "place"}
        theirs = dict(other.named_parameters())
        for name, weights in self.named_parameters():
            if name not in carried:
                weights.copy_(theirs[name])
