"""Supervised updates: which rows, in which micro-batches."""

from __future__ import annotations

import pytest
import torch

from grpo_lightning.auxiliary.supervised import Supervised
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.rollout import world
from grpo_lightning.rollout.warmup import warmup_batch, warmup_indices
from grpo_lightning.types import Prompt
from helpers.tiny_policy import text_prompt


@pytest.fixture(scope="module")
def policy() -> CausalLM:
    made = CausalLM(model="embedded://tiny-llama")
    made.prepare()
    return made


def prompt(index: int) -> Prompt:
    return text_prompt("q" * (1 + index % 3), index, answer="a" * (index % 5))


def test_every_row_once_a_pass_in_an_order_of_its_own() -> None:
    flat = [index for update in range(7) for index in warmup_indices(update, 3, 7, seed=2)]
    passes = [flat[:7], flat[7:14], flat[14:21]]
    assert all(sorted(each) == list(range(7)) for each in passes)
    assert passes[0] != passes[1] != passes[2]
    assert flat == [index for update in range(7) for index in warmup_indices(update, 3, 7, seed=2)]
    assert flat != [index for update in range(7) for index in warmup_indices(update, 3, 7, seed=3)]


def test_an_update_may_take_several_passes() -> None:
    taken = warmup_indices(1, 5, 2, seed=0)
    assert len(taken) == 5
    assert sorted(taken[1:3]) == sorted(taken[3:5]) == [0, 1]


@pytest.mark.parametrize(("budget", "most"), [(1000, 9), (8, 9), (1, 9), (1, 2)])
def test_every_row_is_in_one_micro_batch(policy: CausalLM, budget: int, most: int) -> None:
    indices = [3, 0, 4, 2, 7, 9]
    batch = warmup_batch(Supervised(), policy, prompt, indices, budget, most)
    assert sorted(row for part in batch.micro_batches for row in part.tolist()) == list(range(6))
    assert len(batch.micro_batches) <= most
    assert batch.rollouts.prompts.lengths().tolist() == [1 + index % 3 for index in indices]
    assert batch.rollouts.actions.lengths().tolist() == [1 + index % 5 for index in indices]
    assert batch.normaliser == sum(1 + index % 5 for index in indices)


def test_ranks_share_rows_and_normaliser(policy: CausalLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "block", lambda n: range(0, 0))
    monkeypatch.setattr(world, "gather", lambda value: [value, 12.0])
    batch = warmup_batch(Supervised(), policy, prompt, [3, 0], 100, 2)
    assert len(batch.rollouts) == 0
    assert batch.micro_batches == []
    assert batch.normaliser == 12.0


def test_micro_batches_are_indices(policy: CausalLM) -> None:
    batch = warmup_batch(Supervised(), policy, prompt, [1, 2], 100, 2)
    assert [part.dtype for part in batch.micro_batches] == [torch.int64]
    assert len(batch.rollouts.select(batch.micro_batches[0])) == 2
