"""Signals that stop: they raise, they wait, and none is lost."""

import signal
import threading
import time
from collections.abc import Iterator

import pytest

from tcsis.basics.signals import STOPS, StopError, deferred, stoppable


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Those of a program that is started by hand, and none is left changed."""
    before = {number: signal.getsignal(number) for number in STOPS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    now = {number: signal.getsignal(number) for number in STOPS}
    yield
    assert {number: signal.getsignal(number) for number in STOPS} == now
    for number, old in before.items():
        signal.signal(number, old)


@pytest.mark.parametrize("number", STOPS)
def test_they_raise(number: int) -> None:
    with pytest.raises(StopError) as caught, stoppable() as came:
        signal.raise_signal(number)
    assert caught.value.number == number
    assert came == [number]
    assert isinstance(caught.value, KeyboardInterrupt)


@pytest.mark.parametrize("number", STOPS)
def test_they_wait(number: int) -> None:
    done = []

    def work() -> None:
        with stoppable(), deferred() as waiting:
            assert not waiting()
            signal.raise_signal(number)
            assert waiting()
            done.append("all of it")

    with pytest.raises(StopError):
        work()
    assert done == ["all of it"]


def test_a_second_one_does_not_wait() -> None:
    def work() -> None:
        with stoppable(), deferred():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
            pytest.fail("this is not reached")

    with pytest.raises(StopError) as caught:
        work()
    assert caught.value.number == signal.SIGINT


def test_without_a_program_ctrl_c_is_what_it_always_was() -> None:
    with pytest.raises(KeyboardInterrupt) as caught, deferred():
        signal.raise_signal(signal.SIGINT)
    assert type(caught.value) is KeyboardInterrupt


def test_what_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with stoppable() as came, deferred() as waiting:
            signal.raise_signal(signal.SIGHUP)
            assert not waiting()
        assert not came
    finally:
        signal.signal(signal.SIGHUP, before)


def test_other_threads_are_left_alone() -> None:
    ended = []

    def work() -> None:
        with stoppable(), deferred() as waiting:
            ended.append(waiting())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ended == [False]


class Finalised:
    """Is sent a signal where Python drops what is raised."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


def test_a_signal_that_python_drops_comes_again() -> None:
    heard: list[int] = []

    def work() -> None:
        with stoppable() as came:
            try:
                Finalised()
                assert came == [signal.SIGTERM]
                time.sleep(10)
                pytest.fail("the signal was lost")
            finally:
                heard.extend(came)

    with pytest.raises(StopError):
        work()
    assert heard == [signal.SIGTERM] * 2
