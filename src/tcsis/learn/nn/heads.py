"""What turns the features of a trunk, (b, d, width), into an answer.  All start at zero."""

from __future__ import annotations

from torch import Tensor, nn

from tcsis.learn.nn.dit import zero_init


class SiteHead(nn.Module):
    """An answer per site and value: (b, d, width) -> (b, d, v)."""

    def __init__(self, width: int, num_values: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.out = zero_init(nn.Linear(width, num_values))

    def forward(self, h: Tensor) -> Tensor:
        return self.out(self.norm(h))


class SiteMLP(nn.Module):
    """An answer per site and value with a hidden layer: (b, d, width) -> (b, d, v)."""

    def __init__(self, width: int, hidden: int, num_values: int) -> None:
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(width, hidden), nn.SiLU())
        self.out = zero_init(nn.Linear(hidden, num_values))

    def forward(self, h: Tensor) -> Tensor:
        return self.out(self.hidden(h))


class PooledHead(nn.Module):
    """One number per state: a sum of answers of its sites, as an energy is, and a function of their
    mean, (b, d, width) -> (b,)."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.site = zero_init(nn.Linear(width, 1, bias=False))
        self.mlp = nn.Sequential(
            nn.Linear(width, hidden), nn.SiLU(), zero_init(nn.Linear(hidden, 1))
        )

    def forward(self, h: Tensor) -> Tensor:
        return self.site(h).sum((1, 2)) + self.mlp(h.mean(1)).squeeze(-1)
