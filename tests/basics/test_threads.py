"""Threads by the size of the work, and put back."""

from collections.abc import Iterator

import pytest
import torch

from tcsis.basics.threads import PRODUCTS_PER_THREAD, at_most, num_worthwhile


@pytest.fixture(autouse=True)
def four_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def test_small_work_has_one_thread_and_no_work_more_than_there_are() -> None:
    shares = (0.0, 0.9, 1.9, 2.0, 3.5, 100.0)
    assert [num_worthwhile(share * PRODUCTS_PER_THREAD) for share in shares] == [1, 1, 1, 2, 3, 4]


def test_threads_are_put_back() -> None:
    with at_most(2):
        assert torch.get_num_threads() == 2
        with at_most(3):  # never more than outside
            assert torch.get_num_threads() == 2
    with pytest.raises(KeyError), at_most(1):
        raise KeyError
    assert torch.get_num_threads() == 4
