from __future__ import annotations

import pytest
import torch

from grpo_lightning.functional.linear_head import tiles as tiling
from grpo_lightning.functional.linear_head.tiles import OUTSIDE, Restriction, Steps, Tiles, lowest
from grpo_lightning.types import Ragged

CPU = torch.device("cpu")


def make(steps: int, vocabulary: int, limit: int, width: int | None = None) -> Tiles:
    chosen = torch.zeros(steps, dtype=torch.int64)
    return Tiles(Steps.of(chosen, torch.ones(steps), None), vocabulary, limit, CPU, torch.float32, width)


@pytest.mark.parametrize(("steps", "vocabulary"), [(1, 1), (5, 7), (100, 1000), (5000, 300), (3, 50_000)])
@pytest.mark.parametrize("limit", [1, 64, 1000, 1 << 30])
def test_tiles_cover_everything_once_and_keep_the_limit(steps: int, vocabulary: int, limit: int) -> None:
    tiles = make(steps, vocabulary, limit)
    ids = [index for _, block in tiles.blocks() for index in range(block.start, block.stop)]
    assert ids == list(range(vocabulary))
    assert [step for part in tiles.parts for step in range(part.start, part.stop)] == list(range(steps))
    assert tiles.size <= min(limit, tiling.LARGEST_TILE)
    assert [len(one.chosen_S) for one in tiles.steps] == [part.stop - part.start for part in tiles.parts]


def test_wide_blocks_are_whole_vectors() -> None:
    assert make(10, 1000, 1500).bounds[:3] == [0, 128, 256]
    assert make(10, 1000, 1500, width=150).bounds[:3] == [0, 150, 300]


def test_buffers_are_used_again_and_grow() -> None:
    tiles = make(4, 4, 16)
    first = tiles.buffer("some", torch.Size((4, 4)), torch.float32)
    assert tiles.buffer("some", torch.Size((2, 3)), torch.float32).data_ptr() == first.data_ptr()
    assert tiles.buffer("other", torch.Size((2, 3)), torch.float32).data_ptr() != first.data_ptr()
    assert tiles.buffer("some", torch.Size((9, 9)), torch.float32).shape == (9, 9)


def test_a_restriction_by_blocks() -> None:
    support = Ragged.from_list([[0, 3], [], [2, 4]], torch.int32)
    restriction = Restriction(support, [0, 2, 4, 5], CPU)
    logits = torch.arange(1.0, 16.0).reshape(3, 5)
    blocks = [logits[:, :2].clone(), logits[:, 2:4].clone(), logits[:, 4:].clone()]
    for block, start in enumerate((0, 2, 4)):
        restriction.apply(blocks[block], block, start)
    out = OUTSIDE
    wanted = [[1.0, out, out, 4.0, out], [6.0, 7.0, 8.0, 9.0, 10.0], [out, out, 13.0, out, 15.0]]
    torch.testing.assert_close(torch.cat(blocks, 1), torch.tensor(wanted), rtol=0, atol=0)


def test_what_changes_nothing_is_left_out() -> None:
    chosen = torch.tensor([1, 2])
    assert Steps.of(chosen, torch.ones(2), Ragged.from_list([[], []], torch.int32)) == Steps(chosen, None, None)
    some = Steps.of(chosen, torch.tensor([1.0, 2.0]), Ragged.from_list([[1], []], torch.int32))
    later = some.select(torch.tensor([1]))
    assert later.temperature_S is not None
    assert later.support is not None
    assert later.chosen_S.tolist() == [2]
    assert later.temperature_S.tolist() == [2.0]
    assert later.support.tolist() == [[]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_lowest_logit_is_a_number(dtype: torch.dtype) -> None:
    assert torch.tensor(lowest(dtype), dtype=dtype).isfinite()
    assert lowest(dtype) < -6e4
