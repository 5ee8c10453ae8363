"""What is known of the rates before anything is learned.

The drive is made of the target's own ratios Δ = log p̄(y) - log p̄(x) and of the conditional π_i of
site i under ρ_t,

    drive[i, v] = Δ[i, v]·max(π_i(v), π_i(x_i))

and is locally equivariant, as π_i does not read site i.  Alone and in full it carries independent
sites along exactly; in half it is exact at t = 0 for couplings of two, where each is seen from both
its ends.  Networks start there: from G = 0 nothing would be learned, as both [G]_+ and [-G]_+ are
flat there.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tcsis.peers.path import tilt

LARGEST_DRIVE = 20.0
"""Where ratios are cut off in the drive, which has to be finite next to a forbidden state."""


def drive(x: Tensor, t: Tensor, ratios: Tensor) -> Tensor:
    """Δ·max(π(v), π(x_i)), (b, d, v)."""
    conditional = tilt(ratios, t).softmax(-1)
    here = conditional.gather(-1, x[..., None])
    return ratios.clamp(-LARGEST_DRIVE, LARGEST_DRIVE) * conditional.maximum(here)


def even_time(t: Tensor) -> Tensor:
    """The α whose log-odds are 6t: features of time are made for α, and evenly spaced in that."""
    return torch.tanh(3 * t)
