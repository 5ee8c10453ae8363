"""A target from any function that evaluates log p̄ on a batch of states."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import cached_property

import torch
from torch import Tensor, nn

from tcsis.basics.checks import check_integer, check_num_values
from tcsis.basics.clock import seconds_each
from tcsis.targets.base import Target
from tcsis.targets.lattice import Lattice
from tcsis.targets.recognition import recognise, seconds_to_recognise
from tcsis.targets.repeatable import NUM_PROBES, check_repeatable

COSTLY = 2e-5
"""Seconds of one evaluation, among many at once, from which on a density is costly."""
NUM_TIMED, PATIENCE = 256, 0.05
"""The most states at once, and the most seconds, that are spent on finding that out."""


class CallableTarget(Target):
    """log p̄ given by a function (n, d) int64 tokens -> (n,) floats.  See ``from_callable``."""

    def __init__(
        self,
        function: Callable[[Tensor], Tensor],
        num_sites: int,
        num_values: int,
        relaxed: Callable[[Tensor], Tensor] | None,
        lattice: Lattice | None,
        costly: bool | None,
        device: torch.device,
    ):
        self.function, self.relaxed, self.said_costly = function, relaxed, costly
        self.num_sites, self.num_values = num_sites, num_values
        self.lattice, self.function_device = lattice, device
        self.differentiable = relaxed is not None
        self._place(device, torch.float64)
        self._probe()

    def _log_density(self, x: Tensor) -> Tensor:
        values = self._call(x.reshape(-1, self.num_sites).to(self.function_device))
        return values.to(self.device, self.dtype).reshape(x.shape[:-1])

    @property
    def rounding(self) -> float:
        return max(super().rounding, 2**8 * torch.finfo(self.function_dtype).eps)

    @cached_property
    def costly(self) -> bool:
        """As it was said, or else found out in a moment."""
        if self.said_costly is not None:
            return self.said_costly
        shape, generator = (NUM_TIMED, self.num_sites), torch.Generator().manual_seed(5)
        x = torch.randint(self.num_values, shape, generator=generator).to(self.device)
        return seconds_each(lambda n: self.log_density(x[:n]), NUM_TIMED, PATIENCE) > COSTLY

    @cached_property
    def sketch(self) -> Target:
        return recognise(self, self.function_dtype) or self

    def sketched_within(self, seconds: float) -> Target:
        known = "sketch" in self.__dict__ or seconds == math.inf
        if known or seconds_to_recognise(self, seconds) <= seconds:
            return self
        unknown = copy(self)
        unknown._cost = None  # the tally is that of the one copied
        unknown.__dict__["sketch"] = unknown
        return unknown

    def _place(self, device: torch.device, dtype: torch.dtype) -> None:
        super()._place(device, dtype)
        self.__dict__.pop("sketch", None)

    def relaxed_log_density(self, z: Tensor) -> Tensor:
        if self.relaxed is None:
            return super().relaxed_log_density(z)
        flat = z.reshape(-1, self.num_sites, self.num_values)
        with evaluating(self.relaxed):
            values = self.relaxed(flat.to(self.function_device, self.function_dtype))
        return values.to(self.device, self.dtype).reshape(z.shape[:-2])

    @torch.no_grad()
    def _call(self, states: Tensor) -> Tensor:
        # a copy, for functions that turn tokens into spins in place
        with evaluating(self.function):
            values = as_floats(self.function(states.clone()), len(states))
        self._check_values(values, states)
        return values

    def _probe(self) -> None:
        """Try the function on a few states, so that a mistake shows now and not in training."""
        generator = torch.Generator().manual_seed(0)
        states = torch.randint(
            self.num_values, (NUM_PROBES, self.num_sites), generator=generator
        ).to(self.function_device)
        values = self._call(states)
        self.function_dtype = values.dtype
        check_repeatable(self, states.to(self.device))
        if self.relaxed is not None:
            one_hot = torch.nn.functional.one_hot(states, self.num_values)
            relaxed = self.relaxed_log_density(one_hot)
            wrong = ~torch.isclose(relaxed, values.to(relaxed), rtol=1e-4, atol=1e-4)
            if bool(wrong.any()):
                row = int(wrong.nonzero()[0])
                raise ValueError(
                    f"relaxed gives {relaxed[row].item():.6g} at the one-hot form of state "
                    f"{states[row].tolist()} where log_density gives {values[row].item():.6g}: "
                    "the two must agree on tokens"
                )

    def _check_values(self, values: Tensor, states: Tensor) -> None:
        if values.shape != (len(states),) or values.dtype.is_complex:
            raise ValueError(
                f"log_density returned {values.dtype} of shape {tuple(values.shape)} for "
                f"{len(states)} states, the first of them {states[0].tolist()}: "
                f"expected floats of shape ({len(states)},)"
            )
        bad = values.isnan() | values.isposinf()
        if bool(bad.any()):
            row = int(bad.nonzero()[0])
            raise ValueError(
                f"log_density returned {values[row].item()} at state {states[row].tolist()}: "
                "expected a finite number, or -inf where the state is forbidden"
            )

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"from_callable({name}, num_sites={self.num_sites}, num_values={self.num_values})"


def from_callable(
    log_density: Callable[[Tensor], Tensor],
    num_sites: int,
    num_values: int,
    *,
    relaxed: Callable[[Tensor], Tensor] | None = None,
    lattice: Lattice | None = None,
    allowed: Tensor | None = None,
    costly: bool | None = None,
    device: torch.device | str = "cpu",
) -> Target:
    """A target from a function of (n, d) int64 tokens that returns (n,) values of log p̄, or a
    column (n, 1) of them.

    A ``torch.nn.Module`` is such a function, asked in evaluation mode.
    -inf forbids a state; NaN and +inf are refused, naming the state.  The function runs on
    ``device`` in whatever precision it likes; its values are passed on in float64.  ``relaxed``, a
    differentiable function of (n, d, v) weights in that precision that agrees with ``log_density``
    on one-hot input, opens the methods that use gradients.  ``lattice`` lays the sites out for
    correlations and pictures.  ``allowed`` holds one state or more, (n, d), that are not forbidden,
    for training to start from where they are rare.  ``costly`` says whether training has to go
    easy on evaluations; without a word it is timed, and from 20 µs a state on it has to.
    """
    num_sites, num_values = check_integer("num_sites", num_sites), check_num_values(num_values)
    if not callable(log_density):
        raise ValueError(f"log_density is a {type(log_density).__name__}: expected a function")
    if lattice is not None and lattice.num_sites != num_sites:
        raise ValueError(
            f"lattice of shape {lattice.shape} has {lattice.num_sites} sites: "
            f"expected num_sites = {num_sites}"
        )
    target = CallableTarget(
        log_density, num_sites, num_values, relaxed, lattice, costly, torch.device(device)
    )
    if allowed is not None:
        target.allowed = check_allowed(target, allowed)
    return target


def check_allowed(target: Target, x: Tensor) -> Tensor:
    """States (n, d) that the target does not forbid, or an error that names one that it does."""
    x = target.check(torch.as_tensor(x).to(target.device)).reshape(-1, target.num_sites)
    forbidden = target._log_density(x).isneginf()
    if bool(forbidden.any()) or not len(x):
        which = (
            f"forbidden state {x[int(forbidden.nonzero()[0])].tolist()}" if len(x) else "no state"
        )
        raise ValueError(f"allowed has {which}: expected states where log_density is finite")
    return x


@contextmanager
def evaluating(function: object) -> Iterator[None]:
    """A ``torch.nn.Module`` in evaluation mode, without dropout and the like, and then as it was:
    a density does not depend on chance, nor on the other states of a batch."""
    parts = list(function.modules()) if isinstance(function, nn.Module) else []
    before = [part for part in parts if part.training]
    for part in before:
        part.training = False
    try:
        yield
    finally:
        for part in before:
            part.training = True


def as_floats(values: object, n: int) -> Tensor:
    """What the function returned for n states, if it is an array of numbers: a column is taken for
    its entries, and whole numbers for floats."""
    try:
        found = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(
            f"log_density returned a {type(values).__name__}: expected a tensor of floats"
        ) from None
    found = found.squeeze(1) if found.shape == (n, 1) else found
    return found if found.dtype.is_floating_point or found.dtype.is_complex else found.double()
