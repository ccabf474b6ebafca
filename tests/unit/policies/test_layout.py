"""Rows to model inputs by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from grpo_lightning.functional.prompt_attention import PromptRows
from grpo_lightning.policies.layout import packed, padded, sequences, shared
from grpo_lightning.types import Ragged, Rollouts

CPU = torch.device("cpu")


def rollouts(prompts: Sequence[Sequence[int]], prompt_R: Sequence[int], actions: Sequence[Sequence[int]]) -> Rollouts:
    rows, steps = len(actions), sum(map(len, actions))
    index = torch.arange(rows)
    return Rollouts(
        prompts=Ragged.from_list([list(prompt) for prompt in prompts], torch.int64),
        prompt_R=torch.tensor(prompt_R),
        group_R=index,
        member_R=index,
        trajectory_R=index,
        attempt_R=index,
        finish_R=index,
        temperature_R=torch.ones(rows),
        version_R=index,
        actions=Ragged.from_list([list(action) for action in actions], torch.int64),
        trainable_S=torch.ones(steps, dtype=torch.bool),
        turn_S=torch.zeros(steps, dtype=torch.int64),
        behaviour_log_probs_S=torch.zeros(steps),
    )


ROWS = rollouts([[5, 6], [7, 8, 9]], [1, 0, 1], [[11, 12], [21], [31, 32, 33]])


def test_sequences_leave_the_last_token_out() -> None:
    flat, predicts_S = sequences(ROWS)
    assert flat.tolist() == [[7, 8, 9, 11], [5, 6], [7, 8, 9, 31, 32]]
    # 9 predicts 11, 11 predicts 12; 6 predicts 21; 9 predicts 31, 31 predicts 32, 32 predicts 33.
    assert flat.values[predicts_S].tolist() == [9, 11, 6, 9, 31, 32]


def test_steps_of_an_environment_are_read_but_not_predicted() -> None:
    trainable_S = torch.tensor([True, False, True, False, True, True])
    flat, predicts_S = sequences(replace(ROWS, trainable_S=trainable_S))
    assert flat.tolist() == [[7, 8, 9], [5, 6], [7, 8, 9, 31, 32]]  # nothing trainable depends on 11
    assert flat.values[predicts_S].tolist() == [9, 6, 31, 32]
    inputs = shared(replace(ROWS, trainable_S=trainable_S), CPU)
    assert inputs.arguments["input_ids"].tolist() == [[5, 6, 7, 8, 9, 31, 32]]
    assert inputs.arguments["input_ids"][0, inputs.positions_S].tolist() == [9, 6, 31, 32]


def test_padded() -> None:
    inputs = padded(ROWS, CPU)
    assert set(inputs.arguments) == {"input_ids"}
    ids = inputs.arguments["input_ids"]
    assert ids.tolist() == [[7, 8, 9, 11, 0], [5, 6, 0, 0, 0], [7, 8, 9, 31, 32]]
    assert inputs.positions_S.tolist() == [2, 3, 6, 12, 13, 14]
    assert ids.flatten()[inputs.positions_S].tolist() == [9, 11, 6, 9, 31, 32]


def test_packed() -> None:
    inputs = packed(ROWS, CPU)
    assert inputs.arguments["input_ids"].tolist() == [[7, 8, 9, 11, 5, 6, 7, 8, 9, 31, 32]]
    assert inputs.arguments["position_ids"].tolist() == [[0, 1, 2, 3, 0, 1, 0, 1, 2, 3, 4]]
    assert inputs.arguments["input_ids"][0, inputs.positions_S].tolist() == [9, 11, 6, 9, 31, 32]


def test_a_prompt_is_there_once() -> None:
    inputs = shared(ROWS, CPU)
    assert inputs.arguments["input_ids"].tolist() == [[5, 6, 7, 8, 9, 11, 31, 32]]
    assert inputs.arguments["position_ids"].tolist() == [[0, 1, 0, 1, 2, 3, 3, 4]]
    assert inputs.arguments["input_ids"][0, inputs.positions_S].tolist() == [9, 11, 6, 9, 31, 32]
    assert inputs.parts == (PromptRows(0, 2, ()), PromptRows(2, 3, (1, 2)))


def test_what_one_row_follows_is_one_sequence() -> None:
    inputs = shared(rollouts([[5, 6], [7]], [1, 0, 0], [[11, 12, 13], [21], [31, 32]]), CPU)
    assert inputs.arguments["input_ids"].tolist() == [[5, 6, 31, 7, 11, 12]]
    assert inputs.arguments["position_ids"].tolist() == [[0, 1, 2, 0, 1, 2]]
    assert inputs.parts == (PromptRows(0, 3, ()), PromptRows(3, 3, ()))
    assert inputs.arguments["input_ids"][0, inputs.positions_S].tolist() == [7, 11, 12, 6, 6, 31]


def test_a_row_without_steps() -> None:
    empty = rollouts([[5, 6], [4]], [0, 1, 0], [[], [21], []])
    flat, _ = sequences(empty)
    assert flat.tolist() == [[5, 6], [4], [5, 6]]
    for layout in (padded, packed, shared):
        inputs = layout(empty, CPU)
        assert inputs.arguments["input_ids"].flatten()[inputs.positions_S].tolist() == [4]
