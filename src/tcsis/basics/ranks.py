"""Processes that work on one run, as torchrun starts them, and what they tell each other.

Each runs the same lines.  Rank 0 leads: it alone looks at clocks and writes files, and the others
go by what it tells them.  ``ALONE`` is one process, for which none of this is any work.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from tcsis.basics.launch import started_together

T = TypeVar("T")

PATIENCE = timedelta(minutes=30)
"""After which a rank that does not answer is given up; one that has ended is noticed at once."""
MOMENT = 0.2
"""Seconds that threads of gloo have to let go of the last tensors.  DistributedDataParallel keeps
them alive to the end, and one that lets go while the interpreter ends aborts the process."""


class RankEndedError(RuntimeError):
    """Another rank has ended, or answers no more, so that this one cannot go on."""


class Ranks:
    """One process that is alone: rank 0 of 1."""

    number, size = 0, 1

    @property
    def leads(self) -> bool:
        return self.number == 0

    def told(self, find: Callable[[], T]) -> T:
        """What rank 0 finds, which may be anything that can be pickled."""
        return find()

    def gathered(self, thing: T) -> list[T]:
        """The things of all ranks, at rank 0; nothing at the others."""
        return [thing]

    def summed(self, *numbers: float) -> list[float]:
        """Each summed over the ranks, which wait for each other here."""
        return list(numbers)

    def meet(self) -> None:
        """Wait for all ranks."""
        self.summed(0.0)

    def mean(self, value: Tensor) -> Tensor:
        """Over the ranks."""
        return value

    def spread(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite tensors by those of rank 0."""

    def parallel(self, module: nn.Module) -> nn.Module:
        """The module, whose gradients are means over the ranks."""
        return module

    def apart(self, module: nn.Module) -> AbstractContextManager[Any]:
        """Gradients of what ``parallel`` gave are those of this rank alone meanwhile, to which
        later ones are added."""
        return nullcontext()

    def watching(self) -> AbstractContextManager[None]:
        """That another rank is gone raises ``RankEndedError`` meanwhile."""
        return nullcontext()

    def first_to(self, what: str) -> bool:
        """Whether no other rank has asked this before."""
        return True


ALONE = Ranks()


class Together(Ranks):
    """One of the processes of torch's default group, for numbers and objects on the CPU."""

    def __init__(self) -> None:
        self.number, self.size = distributed.get_rank(), distributed.get_world_size()

    def told(self, find: Callable[[], T]) -> T:
        found = [find() if self.leads else None]
        distributed.broadcast_object_list(found, 0)
        return found[0]  # type: ignore[return-value]

    def gathered(self, thing: T) -> list[T]:
        found: list[Any] | None = [None] * self.size if self.leads else None
        distributed.gather_object(thing, found, 0)
        return found or []

    def summed(self, *numbers: float) -> list[float]:
        total = torch.tensor(numbers, dtype=torch.float64)
        distributed.all_reduce(total)
        return total.tolist()

    def mean(self, value: Tensor) -> Tensor:
        total = value.clone()
        distributed.all_reduce(total)
        return total / self.size

    def spread(self, tensors: Iterable[Tensor]) -> None:
        for tensor in tensors:
            distributed.broadcast(tensor, 0)

    def parallel(self, module: nn.Module) -> nn.Module:
        return DistributedDataParallel(module, find_unused_parameters=True)  # in some steps

    def apart(self, module: nn.Module) -> AbstractContextManager[Any]:
        assert isinstance(module, DistributedDataParallel)
        return module.no_sync()

    @contextmanager
    def watching(self) -> Iterator[None]:
        with warnings.catch_warnings():
            # in the first step, where that one leaves no weights out
            warnings.filterwarnings("ignore", "find_unused_parameters=True was specified")
            with noticing():
                yield

    def first_to(self, what: str) -> bool:
        try:
            return distributed.distributed_c10d._get_default_store().add(f"tcsis/{what}", 1) == 1
        except RuntimeError:  # the store went with its process
            return True


@contextmanager
def noticing() -> Iterator[None]:
    """What torch says of a connection that is lost, by its name."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, distributed.DistError) or "gloo" in str(error):
            raise RankEndedError("another rank has ended, or does not answer") from error
        raise


def current() -> Ranks:
    """The ranks of torch's default group, where there is one of more than one process."""
    there = distributed.is_available() and distributed.is_initialized()
    return Together() if there and distributed.get_world_size() > 1 else ALONE


@contextmanager
def all_ranks() -> Iterator[Ranks]:
    """The processes that torchrun has started, as one group meanwhile; ``ALONE`` without it."""
    if not started_together():
        yield ALONE
        return
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())
        backend = "cpu:gloo,cuda:nccl"
    with noticing():
        distributed.init_process_group(backend, timeout=PATIENCE)
    try:
        yield Together()
    finally:
        time.sleep(MOMENT)
        distributed.destroy_process_group()
