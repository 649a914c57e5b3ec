"""Signals to this very process: when they end a run, and when they only ask for it."""

import os
import signal

import pytest

from ingest.stopping import SIGNALS, Stopping


@pytest.mark.parametrize("number", SIGNALS)
def test_where_nothing_is_in_hand_the_first_signal_ends_the_run(number: int) -> None:
    before = [signal.getsignal(each) for each in SIGNALS]
    with pytest.raises(KeyboardInterrupt), Stopping():
        os.kill(os.getpid(), number)
    assert [signal.getsignal(each) for each in SIGNALS] == before


@pytest.mark.parametrize("number", SIGNALS)
def test_with_files_in_hand_the_first_signal_asks_and_the_second_ends(number: int) -> None:
    told: list[str] = []
    with Stopping() as stopping:
        assert not stopping.asked()
        with stopping.gently(lambda: told.append("told")):
            os.kill(os.getpid(), number)
            assert stopping.asked()
            assert told == ["told"]
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), number)
        assert told == ["told"]
