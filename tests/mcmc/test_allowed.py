"""Allowed states are found where uniform noise hardly ever is, or taken from who knows them."""

from collections.abc import Callable

import networkx
import pytest
import torch
from torch import Tensor

from tcsis.mcmc.allowed import allowed_states
from tcsis.targets import Target, from_callable

GRAPH = torch.tensor(list(networkx.random_regular_graph(3, 60, seed=0).edges))


def unless(forbidden: Callable[[Tensor], Tensor], d: int, v: int, **options: object) -> Target:
    return from_callable(
        lambda x: torch.where(forbidden(x), -torch.inf, 0.1 * x.sum(1)), d, v, **options
    )


def both_on(x: Tensor) -> Tensor:
    return (x[:, GRAPH] == 1).all(-1).any(1)


def both_off(x: Tensor) -> Tensor:
    return (x[:, GRAPH] == 0).all(-1).any(1)


def find(target: Target, n: int = 500, seed: int = 0) -> Tensor:
    return allowed_states(target, n, torch.Generator().manual_seed(seed))


CONSTRAINED: dict[str, tuple[Target, int]] = {  # with how many different ones at least
    "free": (from_callable(lambda x: x.sum(1).double(), 60, 2), 500),
    "independent sets": (unless(both_on, 60, 2), 200),
    "vertex covers": (unless(both_off, 60, 2), 200),
    "5 of 60 hot": (unless(lambda x: x.sum(1) != 5, 60, 2), 400),
    "30 of 60 hot": (unless(lambda x: x.sum(1) != 30, 60, 2), 400),
    "even": (unless(lambda x: x.sum(1) % 2 == 1, 60, 2), 500),
    "permutations": (
        unless(lambda x: (x.sort(1).values != torch.arange(12)).any(1), 12, 12), 400,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONSTRAINED)
def test_allowed_states_are_found(name: str) -> None:
    target, different = CONSTRAINED[name]
    x = find(target)
    assert x.shape == (500, target.num_sites)
    assert target.log_density(x).isfinite().all()
    assert len(x.unique(dim=0)) >= different
    assert torch.equal(x, find(target))
    assert not torch.equal(x, find(target, seed=1))


def rare(x: Tensor) -> Tensor:
    """All but two states of 2^40."""
    return (x[:, ::2] == x[:, 1::2]).any(1) | (x[:, 2:] != x[:, :-2]).any(1)


KNOWN = torch.tensor([[0, 1] * 20, [1, 0] * 20])


def test_given_states_are_used() -> None:
    target = unless(rare, 40, 2, allowed=KNOWN)
    x = find(target, 100)
    assert torch.equal(x.unique(dim=0), KNOWN)
    counts = (x[:, 0] == 0).sum()
    assert counts == 50  # as often as each other
    assert torch.equal(find(unless(rare, 40, 2, allowed=KNOWN[0]), 3), KNOWN[:1].expand(3, -1))


def test_where_none_is_found_it_says_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"forbids every state .* from_callable\(") as caught:
        find(unless(rare, 40, 2))
    assert "\n" not in str(caught.value)
    assert "allowed=" in str(caught.value)


def test_wrong_states_are_refused_by_name() -> None:
    wrong = torch.cat([KNOWN, torch.ones_like(KNOWN[:1])])
    with pytest.raises(ValueError, match=r"allowed has forbidden state \[1, 1, 1, .*finite"):
        unless(rare, 40, 2, allowed=wrong)
    for states, message in (
        (KNOWN[:, :-1], r"shape \(2, 39\)"),
        (2 * KNOWN, "tokens from 0 to 2"),
        (KNOWN.double(), "dtype torch.float64"),
        (KNOWN[:0], "allowed has no state"),
    ):
        with pytest.raises(ValueError, match=message):
            unless(rare, 40, 2, allowed=states)
