from __future__ import annotations

import io
from dataclasses import fields, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_lightning.types import (
    Episode,
    FinishReason,
    Prompt,
    Ragged,
    Rollouts,
    RolloutTable,
    Turn,
    offsets_from_lengths,
)
from helpers.tables import reward_table
from helpers.tiny_rollouts import tiny_rollouts

SEQUENCES = st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=6)


def ragged(sequences: list[list[int]]) -> Ragged:
    return Ragged.from_list(sequences, torch.int64)


def test_ragged_by_hand() -> None:
    three = ragged([[1, 2], [], [3]])
    assert three.values.tolist() == [1, 2, 3]
    assert three.offsets.tolist() == [0, 2, 2, 3]
    assert three.offsets.dtype == torch.int64
    assert len(three) == 3
    assert three.lengths().tolist() == [2, 0, 1]
    assert [three[i].tolist() for i in range(3)] == [[1, 2], [], [3]]
    assert three.positions(torch.tensor([2, 0])).tolist() == [2, 0, 1]


@settings(max_examples=60, deadline=None)
@given(sequences=SEQUENCES, data=st.data())
def test_ragged_select_and_cat(sequences: list[list[int]], data: st.DataObject) -> None:
    whole = ragged(sequences)
    assert whole.tolist() == sequences
    places = st.lists(st.integers(0, len(sequences) - 1), max_size=8) if sequences else st.just([])
    chosen: list[int] = data.draw(places)
    selected = whole.select(torch.tensor(chosen, dtype=torch.int64))
    assert selected.tolist() == [sequences[i] for i in chosen]
    assert Ragged.cat([whole, selected, whole]).tolist() == sequences + [sequences[i] for i in chosen] + sequences


def test_ragged_values_may_have_further_dimensions() -> None:
    matrices = Ragged(torch.arange(10.0).reshape(5, 2), torch.tensor([0, 2, 5]))
    assert matrices.select(torch.tensor([1, 0])).values.tolist() == [[4, 5], [6, 7], [8, 9], [0, 1], [2, 3]]
    assert matrices[0].shape == (2, 2)


def test_an_empty_ragged() -> None:
    none = Ragged.from_list([], torch.int32)
    assert len(none) == 0
    assert none.values.dtype == torch.int32
    assert none.select(torch.zeros(0, dtype=torch.int64)).tolist() == []


def test_offsets() -> None:
    assert offsets_from_lengths(torch.tensor([2, 0, 3], dtype=torch.int32)).tolist() == [0, 2, 2, 5]
    assert offsets_from_lengths(torch.zeros(0, dtype=torch.int64)).tolist() == [0]


def row(rollouts: Rollouts, index: int) -> dict[str, object]:
    """Everything a row is, as plain Python."""
    start, end = rollouts.actions.offsets[index : index + 2].tolist()
    found: dict[str, object] = {"actions": rollouts.actions[index].tolist()}
    for item in fields(rollouts):
        value = getattr(rollouts, item.name)
        if item.name.endswith("_R") and item.name != "prompt_R":
            found[item.name] = value[index].item()
        elif item.name.endswith("_S"):
            found[item.name] = value[start:end].tolist()
    prompt = int(rollouts.prompt_R[index])
    found["prompt"] = rollouts.prompts[prompt].tolist()
    found["extras"] = {name: each[prompt].tolist() for name, each in rollouts.extras.items()}
    steps = range(start, end)
    found["support"] = [[] if rollouts.support is None else rollouts.support[s].tolist() for s in steps]
    return found


def rows(rollouts: Rollouts) -> list[dict[str, object]]:
    return [row(rollouts, i) for i in range(len(rollouts))]


def test_rows_know_their_steps() -> None:
    rollouts = tiny_rollouts([2, 0, 3])
    assert len(rollouts) == 3
    assert rollouts.row_S.tolist() == [0, 0, 2, 2, 2]
    # Steps 0 and 1 of row 0; 200, 201 and 202 of row 2; even ones are the policy's.
    assert rollouts.lengths_R.tolist() == [1, 0, 2]


@pytest.mark.parametrize("support", [False, True])
def test_select_takes_whole_rows_in_order(support: bool) -> None:
    rollouts = tiny_rollouts([2, 0, 3, 1, 4], support=support)
    before = rows(rollouts)
    for chosen in ([4, 1, 0], [2, 2], [], [0, 1, 2, 3, 4]):
        selected = rollouts.select(torch.tensor(chosen, dtype=torch.int64))
        assert rows(selected) == [before[i] for i in chosen]
        assert selected.prompts.tolist() == rollouts.prompts.tolist()
    assert rows(rollouts) == before


@pytest.mark.parametrize("support", [False, True])
def test_cat_lays_rows_end_to_end_and_moves_prompts_along(support: bool) -> None:
    parts = [tiny_rollouts([2, 3, 1], first=0, support=support), tiny_rollouts([0, 4], first=50, support=support)]
    together = Rollouts.cat(parts)
    assert rows(together) == rows(parts[0]) + rows(parts[1])
    assert together.prompt_R.tolist() == [0, 0, 1, 2, 2]
    assert (together.support is None) is not support


def test_cat_of_rows_with_and_without_a_support() -> None:
    parts = [tiny_rollouts([2, 3]), tiny_rollouts([4], first=50, support=False), tiny_rollouts([0], first=90)]
    together = Rollouts.cat(parts)
    assert together.support is not None
    assert len(together.support) == 9
    assert rows(together) == [each for part in parts for each in rows(part)]


def test_select_undoes_cat() -> None:
    parts = [tiny_rollouts([2, 3]), tiny_rollouts([4, 1, 0], first=50)]
    together = Rollouts.cat(parts)
    assert rows(together.select(torch.tensor([2, 3, 4]))) == rows(parts[1])


@pytest.mark.parametrize("support", [False, True])
def test_state_goes_through_a_checkpoint_of_tensors_only(support: bool) -> None:
    rollouts = tiny_rollouts([2, 0, 3], support=support)
    file = io.BytesIO()
    torch.save(rollouts.state_dict(), file)
    file.seek(0)
    loaded = Rollouts.from_state_dict(torch.load(file, weights_only=True))
    assert rows(loaded) == rows(rollouts)
    for item in fields(rollouts):
        own, other = getattr(rollouts, item.name), getattr(loaded, item.name)
        if isinstance(own, torch.Tensor):
            assert own.dtype == other.dtype
    assert (loaded.support is None) is not support


def test_table_select_and_cat() -> None:
    first = replace(reward_table([[1.0, None], [0.5]]), components={"a": torch.tensor([1.0, 2.0, 3.0])})
    second = replace(reward_table([[7.0, 8.0]], dtype=torch.float32), components={"a": torch.tensor([4.0, 5.0])})
    together = RolloutTable.cat([first, second])
    assert len(together) == 5
    assert together.reward_epsilon == torch.finfo(torch.float32).eps
    assert together.components["a"].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    selected = together.select(torch.tensor([4, 0, 1]))
    assert selected.rewards_R.nan_to_num(-1.0).tolist() == [8.0, 1.0, -1.0]
    assert selected.valid_R.tolist() == [True, True, False]
    assert selected.member_R.tolist() == [1, 0, 1]
    assert selected.components["a"].tolist() == [5.0, 1.0, 2.0]
    assert selected.reward_epsilon == together.reward_epsilon


def test_an_episode_shows_its_last_turn() -> None:
    episode = Episode(Prompt("train", 0, "2 + 2 =", {}), group=0, member=0)
    assert (episode.completion, episode.finish) == ("", FinishReason.STOP)
    episode.turns.append(Turn([1, 2], "let me see", FinishReason.STOP, observation="go on"))
    episode.turns.append(Turn([4], "4", FinishReason.LENGTH))
    assert (episode.completion, episode.finish) == ("4", FinishReason.LENGTH)
