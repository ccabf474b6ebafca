"""Counts of a pass through a model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from transformers import AutoModelForCausalLM

from grpo_lightning import profiling
from helpers.tiny_policy import small_llama

LAYER = 2 * 32 * 32 + 2 * 16 * 32 + 3 * 48 * 32
"""Weights of a layer of the small model, by hand."""
HEAD = 99 * 32


@pytest.fixture
def records() -> Iterator[dict[str, profiling.PhaseRecord]]:
    profiler = profiling.Profiler()
    profiling.start(profiler)
    yield profiler.records
    profiling.stop()


def test_a_decoding_step(records: dict[str, profiling.PhaseRecord]) -> None:
    model = AutoModelForCausalLM.from_config(small_llama())
    with torch.no_grad(), profiling.phase("decode"):
        profiling.count_body(model, torch.tensor([1, 1, 1]), torch.tensor([4, 9, 0]))
        profiling.count_head(model, 3)
    record = records["decode"]
    assert (record.positions, record.tokens) == (3, 3)
    # two layers, 4 heads of depth 8; keys: 5 + 10 + 1
    assert record.operations == 2 * 2 * LAYER * 3 + 2 * 4 * 32 * 16 + 2 * HEAD * 3


def test_a_padded_training_pass(records: dict[str, profiling.PhaseRecord]) -> None:
    model = AutoModelForCausalLM.from_config(small_llama())
    with profiling.phase("forward"):
        profiling.count_body(model, torch.tensor([6, 6]), padding=3, duplicated=2, recomputed=True)
        with profiling.phase("head"):
            profiling.count_head(model, 4, recomputed=True)
    with profiling.phase("backward"):
        pass
    body = 2 * 2 * LAYER * 12 + 2 * 4 * 32 * (21 + 21)
    forward, head, backward = records["forward"], records["head"], records["backward"]
    assert (forward.positions, forward.tokens, forward.duplicated, forward.operations) == (12, 9, 2, body)
    assert (head.positions, head.operations) == (0, 2 * HEAD * 4)
    assert (backward.positions, backward.tokens) == (12, 9)
    assert (backward.operations, backward.recomputed) == (2 * (body + 2 * HEAD * 4), body + 2 * HEAD * 4)


def test_nothing_is_counted_where_nobody_measures() -> None:
    profiling.count_body(None, torch.tensor([1]))
    profiling.count_head(None, 1)
