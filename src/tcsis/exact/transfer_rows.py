"""A 2-D lattice target read row by row, and the matrices that lead from one row to the next.

The shorter side runs along the row, so that a row of w sites has n = v^w states s, and

    p̄(x) = exp(log_scale) · Π_r weight_r(s_r) · Π_r K_r(s_r, s_(r+1)),    K_r = ⊗_c exp(down[r, c]).

``weight`` and the site factors of K are scaled to a largest entry of 1.  K is never built: its
factors are applied to a *message* (n, b), one function of the row state in each column.  A message
rescaled after every row has no entry below exp(-span), where span adds the ranges of log weight and
log K; refusing spans beyond ``MAX_SPAN`` is therefore enough for nothing ever to underflow.  Row
states that contradict what is known of the target have weight zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from tcsis.targets import Given, Pairwise, Symmetries, Target

MAX_ROW_STATES = 2**14
"""The most states a row may have."""

MAX_SPAN = 650.0
"""The largest span of logarithms within a row; float64 reaches down to exp(-708)."""

FACTOR_SIZE = 32
"""Neighbouring site factors of K are multiplied out up to this size, which BLAS is fastest at."""


@dataclass(frozen=True)
class Rows:
    """A lattice of h rows of w sites, h ≥ w; row r is bound to row r + 1, the last to the first."""

    tokens: Tensor  # (n, w): the sites of each row state
    log_weight: Tensor  # (h, n): fields and couplings within the row
    log_down: Tensor  # (h, w, v, v): couplings from row r to row r + 1
    constant: float
    periodic: bool
    symmetries: Symmetries
    order: Tensor  # (d,): the site of the target at each place, row after row
    possible: Tensor  # (h, n): row states that do not contradict what is known

    @property
    def height(self) -> int:
        return len(self.log_weight)

    @property
    def width(self) -> int:
        return self.tokens.shape[1]

    @property
    def num_values(self) -> int:
        return self.log_down.shape[-1]

    @property
    def num_states(self) -> int:
        return len(self.tokens)

    @cached_property
    def one_hot(self) -> Tensor:
        """(n, w, v)"""
        return torch.nn.functional.one_hot(self.tokens, self.num_values).double()

    @cached_property
    def weight(self) -> Tensor:
        """(h, n), the largest of each row 1."""
        return (self.log_weight - self.largest[:, None]).exp().where(self.possible, 0.0)

    @cached_property
    def largest(self) -> Tensor:
        """(h,): the largest log weight of the row states that are possible."""
        return self.log_weight.where(self.possible, -torch.inf).amax(1)

    @cached_property
    def log_scale(self) -> float:
        """What ``weight`` and ``factors`` leave out of log p̄."""
        return float(self.largest.sum() + self.log_down.amax((2, 3)).sum()) + self.constant

    @cached_property
    def factors(self) -> list[Tensor]:
        """K_r as a Kronecker product over groups of neighbouring sites, each (h, g, g)."""
        site = (self.log_down - self.log_down.amax((2, 3), keepdim=True)).exp()
        per_group = 1
        while self.num_values ** (per_group + 1) <= FACTOR_SIZE:
            per_group += 1
        groups = torch.arange(self.width).tensor_split(-(-self.width // per_group))
        return [kronecker(site[:, group]) for group in groups]

    def down(self, message: Tensor, row: int) -> Tensor:
        """Σ_s K_row(s, s')·message(s), (n, b) -> (n, b): from ``row`` to the next."""
        return apply([factor[row % self.height].T for factor in self.factors], message)

    def up(self, message: Tensor, row: int) -> Tensor:
        """Σ_s' K_row(s, s')·message(s'), (n, b) -> (n, b): from the next row to ``row``."""
        return apply([factor[row % self.height] for factor in self.factors], message)

    def down_from(self, states: Tensor, row: int) -> Tensor:
        """The rows of K_row at ``states``, (k,) -> (k, n)."""
        product, left = torch.ones(len(states), 1, dtype=torch.float64), self.num_states
        for factor in self.factors:
            left //= factor.shape[1]
            part = factor[row % self.height, states // left % factor.shape[1]]  # (k, g)
            product = (product[:, :, None] * part[:, None, :]).flatten(1)
        return product

    @cached_property
    def starts(self) -> tuple[Tensor, Tensor, Tensor]:
        """The states of the first row to start from, the number of states each stands for, and the
        start (its index) that stands for each of the n row states.

        On a periodic lattice there is one start for each orbit of the symmetries; on an open one
        the rows need not close, and a single start stands for all.
        """
        if not self.periodic:
            nothing = torch.zeros(self.num_states, dtype=torch.long)
            return nothing[:1], torch.ones(1, dtype=torch.float64), nothing
        shifts = range(self.width if self.symmetries.translations else 1)
        shifted = [self.tokens.roll(shift, 1) for shift in shifts]
        if self.symmetries.value_permutation:
            shifted = [relabelled(tokens, self.num_values) for tokens in shifted]
        place = self.num_values ** torch.arange(self.width - 1, -1, -1)
        first = torch.stack([(tokens * place).sum(1) for tokens in shifted]).amin(0)
        start, orbit, size = first.unique(return_inverse=True, return_counts=True)
        return start, size.double(), orbit

    def possible_starts(self, first: int) -> Tensor:
        """The starts (their indices) that row ``first`` may be in."""
        start, _, _ = self.starts
        return self.possible[first, start].nonzero().squeeze(1) if self.periodic else start


def obstacle(target: Target) -> str | None:
    """Why ``target`` has no transfer matrix here, in one line; None if it has one."""
    need = "the transfer matrix needs a 2-D lattice with nearest-neighbour couplings"
    target, lattice = whole(target), target.lattice
    if not isinstance(target, Pairwise) or lattice is None or len(lattice.shape) != 2:
        return f"{need}: {target} is not one"
    if target.num_values ** min(lattice.shape) > MAX_ROW_STATES:
        return (
            f"{target} is too wide for the transfer matrix: its rows have "
            f"{target.num_values}**{min(lattice.shape)} states, more than {MAX_ROW_STATES}"
        )
    height, width = lattice.shape
    place = torch.stack([target.edges // width, target.edges % width], dim=-1)
    step = (place[:, 1] - place[:, 0]).abs()  # (m, 2): along each axis
    if lattice.periodic:
        step = torch.minimum(step, torch.tensor([height, width]) - step)
    far = (step.sum(1) != 1).nonzero().flatten()
    if len(far):
        return f"{need}: edge {target.edges[far[0]].tolist()} joins no neighbours"
    return None


def read(target: Target) -> Rows:
    """The rows of ``target``, or a ``ValueError`` that says what stands in the way."""
    reason = obstacle(target)
    if reason is not None:
        raise ValueError(reason)
    symmetries, fits = target.symmetries, fitting(target)
    target = whole(target)
    assert isinstance(target, Pairwise)
    assert target.lattice is not None
    sites, v = target.lattice.sites, target.num_values
    sites = sites.T if sites.shape[0] < sites.shape[1] else sites
    (h, w), order = sites.shape, sites.flatten()
    tokens = torch.arange(v**w)[:, None] // v ** torch.arange(w - 1, -1, -1) % v
    fields = target.fields[order].reshape(h, w, v)
    log_weight = torch.zeros(h, v**w, dtype=torch.float64)
    log_down = torch.zeros(h, w, v, v, dtype=torch.float64)
    possible = torch.ones(h, v**w, dtype=torch.bool)
    fits = fits[order].reshape(h, w, v)
    for c in range(w):
        log_weight += fields[:, c, tokens[:, c]]
        possible &= fits[:, c, tokens[:, c]]
    for (i, j), table in zip(order.argsort()[target.edges].tolist(), target.couplings, strict=True):
        (row, c), (other_row, other_c) = divmod(i, w), divmod(j, w)
        if row == other_row:
            log_weight[row] += table[tokens[:, c], tokens[:, other_c]]
        elif other_row == (row + 1) % h:
            log_down[row, c] += table
        else:
            log_down[other_row, c] += table.T
    span = width_over(log_weight, (1,)).max() + width_over(log_down, (2, 3)).sum(1).max()
    if span > MAX_SPAN:
        raise ValueError(
            f"{target} is too cold for the transfer matrix: the weights of a row differ by up to "
            f"a factor exp({span:.0f}), float64 allows exp({MAX_SPAN:.0f}); lower beta"
        )
    return Rows(
        tokens, log_weight, log_down, target.constant,
        target.lattice.periodic, symmetries, order, possible,
    )  # fmt: skip


def whole(target: Target) -> Target:
    """The target that is given something, or the target itself."""
    return target.target if isinstance(target, Given) else target


def fitting(target: Target) -> Tensor:
    """Which values do not contradict what is known, (d, v)."""
    if isinstance(target, Given):
        return target.known.fits(target.num_values)
    return torch.ones(target.num_sites, target.num_values, dtype=torch.bool)


# -- messages --------------------------------------------------------------------------------


def below(rows: Rows, start: Tensor, first: int = 0) -> Tensor:
    """What the last row is bound to below, (n, b): the ``start`` of row ``first`` on a periodic
    lattice, nothing (a weight of 1) on an open one."""
    if not rows.periodic:
        return torch.ones(rows.num_states, len(start), dtype=torch.float64)
    return rows.up(indicators(rows, start), first - 1)


def closed(rows: Rows, message: Tensor, start: Tensor) -> Tensor:
    """The message on the first row summed up, (n, ..., b) -> (b, ...): over the ``start`` alone on
    a periodic lattice, over all row states on an open one."""
    if not rows.periodic:
        return message.sum(0).movedim(-1, 0)
    return message[start, ..., torch.arange(len(start))]


def indicators(rows: Rows, start: Tensor) -> Tensor:
    """1[s = start_i], (b,) -> (n, b)."""
    message = torch.zeros(rows.num_states, len(start), dtype=torch.float64)
    message[start, torch.arange(len(start))] = 1.0
    return message


def tails(rows: Rows, message: Tensor, first: int = 0) -> Iterator[tuple[int, Tensor, Tensor]]:
    """(k, tail of row first + k, its log scale), from k = h - 1 to 0; (n, b) and (b,)."""
    log_scale = torch.zeros(message.shape[1], dtype=torch.float64)
    for k in range(rows.height - 1, -1, -1):
        row = (first + k) % rows.height
        message, step = rescale(message * rows.weight[row][:, None])
        log_scale = log_scale + step
        yield k, message, log_scale
        if k > 0:
            message = rows.up(message, row - 1)


def heads(rows: Rows, message: Tensor, first: int, count: int) -> Iterator[Tensor]:
    """The heads of rows first + 1 .. first + count, (n, b), from a message on row ``first``."""
    for row in range(first, first + count):
        message = rows.down(message, row)
        yield message
        message, _ = rescale(message * rows.weight[(row + 1) % rows.height][:, None])


def rescale(message: Tensor) -> tuple[Tensor, Tensor]:
    """The message with the largest entry of each column 1, (n, ..., b), and the logarithm of what
    each column was divided by, (b,)."""
    largest = message.flatten(0, -2).amax(0)
    return message / largest, largest.log()


# -- small pieces ----------------------------------------------------------------------------


def apply(factors: list[Tensor], message: Tensor) -> Tensor:
    """(⊗ factors) message, each factor (g, g) acting on its own digits of the first axis (n, b)."""
    done, shape = 1, message.shape
    for factor in factors:
        size = len(factor)
        message = torch.bmm(factor.expand(done, size, size), message.reshape(done, size, -1))
        done *= size
    return message.reshape(shape)


def kronecker(site_factors: Tensor) -> Tensor:
    """The Kronecker product over the second axis, (h, sites, v, v) -> (h, v^sites, v^sites)."""
    product, *rest = site_factors.unbind(1)
    for factor in rest:
        size = product.shape[1] * factor.shape[1]
        product = torch.einsum("hij,hkl->hikjl", product, factor).reshape(-1, size, size)
    return product


def relabelled(tokens: Tensor, num_values: int) -> Tensor:
    """Tokens (n, w) with the values renamed in the order in which they first occur."""
    w = tokens.shape[1]
    first = torch.full((len(tokens), num_values), w)
    for c in range(w - 1, -1, -1):
        first.scatter_(1, tokens[:, c : c + 1], c)
    return first.argsort(1).argsort(1).gather(1, tokens)


def width_over(values: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Largest minus smallest entry over ``dims``."""
    return values.amax(dims) - values.amin(dims)
