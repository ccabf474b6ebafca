from __future__ import annotations

import threading
import time

from grpo_lightning.rewards.counts import Tally, add_counts, counts_of_ranks


def test_a_key_that_occurred_stays() -> None:
    tally = Tally()
    tally.add("failures", 2)
    tally.add("failures/timeout", 2)
    assert tally.take() == {"failures": 2.0, "failures/timeout": 2.0, "seconds": 0.0}
    assert tally.take() == {"failures": 0.0, "failures/timeout": 0.0, "seconds": 0.0}


def test_calls_that_overlap_count_their_time_once() -> None:
    tally = Tally()

    def call() -> None:
        with tally.running():
            time.sleep(0.2)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0.2 <= tally.take()["seconds"] < 0.6


def test_rounds_and_ranks() -> None:
    total = {"a": {"failures": 1.0, "seconds": 2.0}}
    add_counts(total, {"a": {"failures": 1.0, "retries": 1.0, "seconds": 1.0}, "b": {"failures": 0.0}})
    assert total == {"a": {"failures": 2.0, "retries": 1.0, "seconds": 3.0}, "b": {"failures": 0.0}}
    ranks = [{"a": {"failures": 1.0, "seconds": 2.0}}, {"a": {"failures": 4.0, "seconds": 1.0, "failures/raised": 4.0}}]
    assert counts_of_ranks(ranks) == {"a": {"failures": 5.0, "seconds": 2.0, "failures/raised": 4.0}}
    assert counts_of_ranks([]) == {}
