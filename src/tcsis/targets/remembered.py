"""A target that evaluates no state again that it still remembers.

Training asks for the same states many times: those of the buffer, and draws that are looked at
again.  log p̄ is a function of the state alone (``check_repeatable`` sees to that), so what was once
evaluated is known, and only states that are new cost anything.
"""

from __future__ import annotations

from itertools import islice

import torch
from torch import Tensor

from tcsis.targets.base import Target
from tcsis.targets.transformed import Transformed


class Remembered(Transformed):
    """The same target with the values of the last ``capacity`` states that it was asked for."""

    def __init__(self, target: Target, capacity: int):
        super().__init__(target)
        self.symmetries, self.allowed = target.symmetries, target.allowed
        self.capacity = capacity
        self.values: dict[bytes, float] = {}

    def count(self, densities: float) -> None:
        """What is asked for is not what is paid for: states that are new are counted where they are
        evaluated, and nothing else is."""

    def _log_density(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, self.num_sites)
        keys = [row.tobytes() for row in flat.to("cpu", torch.uint8).numpy()]
        new = {key: row for row, key in enumerate(keys) if key not in self.values}
        if new:
            rows = torch.tensor(list(new.values()), device=flat.device)
            values = self.target.log_density(flat[rows]).double().tolist()
            self.values.update(zip(new, values, strict=True))
            Target.count(self, len(new))
        found = [self.values[key] for key in keys]
        self.forget(keys)
        return torch.tensor(found, dtype=self.dtype, device=x.device).reshape(x.shape[:-1])

    def forget(self, keys: list[bytes]) -> None:
        """The states that were not asked for the longest, where there are too many."""
        if len(self.values) <= self.capacity:
            return
        recent = {key: self.values.pop(key) for key in dict.fromkeys(keys)}
        self.values.update(recent)  # last in the order of the dictionary
        for key in list(islice(self.values, len(self.values) - self.capacity)):
            del self.values[key]

    def __repr__(self) -> str:
        return repr(self.target)
