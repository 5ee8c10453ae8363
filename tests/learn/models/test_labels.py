"""Labels by appearance are patterns: the same for every renaming of the values."""

import itertools

import pytest
import torch
from torch import Tensor

from tcsis.learn.models.labels import ByAppearance, ByName, num_seen

SITES = 4


def every_row(num_values: int) -> Tensor:
    return torch.cartesian_prod(*[torch.arange(num_values)] * SITES)


def read(labels: ByName | ByAppearance, y: Tensor) -> Tensor:
    return labels.names(y).gather(1, y)


@pytest.mark.parametrize("kind", [ByName, ByAppearance])
@pytest.mark.parametrize("v", [2, 3, 4])
def test_names_are_permutations(kind: type, v: int) -> None:
    names = kind(v).names(every_row(v))
    assert torch.equal(names.sort(1).values, torch.arange(v).expand(len(names), -1))
    nothing_yet = kind(v).names(torch.zeros(3, 0, dtype=torch.long))
    assert torch.equal(nothing_yet, torch.arange(v).expand(3, -1))


@pytest.mark.parametrize("v", [2, 3, 4])
def test_patterns_do_not_know_names(v: int) -> None:
    labels, y = ByAppearance(v), every_row(v)
    pattern = read(labels, y)
    for renaming in itertools.permutations(range(v)):
        assert torch.equal(read(labels, torch.tensor(renaming)[y]), pattern)
    # each pattern stands for all rows that differ in names only: V!/(V - number of values)! of them
    _, count = pattern.unique(dim=0, return_counts=True)
    assert int(count.sum()) == v**SITES
    # numbered as they appear: a new label is one more than all before it
    assert bool((pattern <= num_seen(pattern)).all())
    assert torch.equal(read(ByName(v), y), y)


def test_a_pattern_by_hand() -> None:
    y = torch.tensor([[2, 0, 2, 3]])
    assert read(ByAppearance(4), y).tolist() == [[0, 1, 0, 2]]
    assert ByAppearance(4).names(y).tolist() == [[1, 3, 0, 2]]
    assert num_seen(torch.tensor([[0, 1, 0, 2]])).tolist() == [[0, 1, 2, 2]]


def test_unseen_labels_are_tied_and_settle_on_the_next() -> None:
    labels = ByAppearance(4)
    logits, seen = torch.arange(20.0).reshape(5, 4), torch.arange(5)
    tied = [[0, 0, 0, 0], [4, 5, 5, 5], [8, 9, 10, 10], [12, 13, 14, 15], [16, 17, 18, 19]]
    assert labels.tie(logits, seen).tolist() == tied
    drawn = torch.full((5,), 3)
    assert labels.settle(drawn, seen).tolist() == [0, 1, 2, 3, 3]
    assert labels.settle(torch.zeros(5, dtype=torch.long), seen).tolist() == [0] * 5
    assert torch.equal(ByName(4).tie(logits, seen), logits)
    assert torch.equal(ByName(4).settle(drawn, seen), drawn)


@pytest.mark.statistical
def test_meanings_are_drawn_evenly() -> None:
    """All six renamings of three values about equally often; each share within 4.4 standard
    errors, false alarms 6e-5 together."""
    values = ByAppearance(3).values(6_000, torch.Generator().manual_seed(0))
    assert torch.equal(values.sort(1).values, torch.arange(3).expand(6_000, -1))
    _, count = values.unique(dim=0, return_counts=True)
    assert len(count) == 6
    assert (count - 1_000).abs().max() < 4.4 * (6_000 * 5 / 36) ** 0.5
    plain = ByName(3).values(5, torch.Generator().manual_seed(0))
    assert torch.equal(plain, torch.arange(3).expand(5, -1))
