"""Stretches of flat tokens side by side, and which pieces an attention matrix is made of."""

from __future__ import annotations

import random

import pytest
import torch

from grpo_lightning.functional.attention_pieces import PromptRows, Stretches, pieces_of


def flat(tokens: int) -> torch.Tensor:
    """[N, 2 heads, 3]: number ``100 * token + 10 * head + depth``."""
    token, head, depth = torch.meshgrid(torch.arange(tokens), torch.arange(2), torch.arange(3), indexing="ij")
    return (100 * token + 10 * head + depth).double()


@pytest.mark.parametrize(
    "bounds", [[(0, 4)], [(2, 3), (5, 3)], [(2, 3), (6, 3)], [(0, 1), (3, 4), (9, 2)], [(5, 2), (1, 2)]], ids=str
)
def test_there_and_back(bounds: list[tuple[int, int]]) -> None:
    source, stretches = flat(12), Stretches(bounds)
    width = max(length for _, length in bounds)
    taken = stretches.take(source)
    assert taken.shape == (len(bounds), 2, width, 3)
    marked = stretches.take(source, padding=-1.0)
    for row, (start, length) in enumerate(bounds):
        for place in range(width):
            real = place < length
            token = start + min(place, length - 1)
            for head in range(2):
                assert taken[row, head, place].tolist() == [100 * token + 10 * head + depth for depth in range(3)]
                assert marked[row, head, place].tolist() == (taken[row, head, place].tolist() if real else [-1.0] * 3)
    inside = {token for start, length in bounds for token in range(start, start + length)}
    target = torch.full((12, 2, 3), 7.0, dtype=torch.float64)
    stretches.put(target, taken)
    for token in range(12):
        assert torch.equal(target[token], source[token] if token in inside else torch.full((2, 3), 7.0).double())
    stretches.add(target, taken)
    for token in range(12):
        assert torch.equal(target[token], 2 * source[token] if token in inside else torch.full((2, 3), 7.0).double())


def read_by(parts: tuple[PromptRows, ...]) -> tuple[dict[tuple[int, int], int], int]:
    """How often each (query, key) occurs, and the number of calls."""
    count: dict[tuple[int, int], int] = {}
    calls = 0
    ids = torch.arange(parts[-1].end)[:, None]
    for each in pieces_of(parts):
        calls += 1
        queries, keys = (stretches.take(ids, padding=-1)[:, 0] for stretches in (each.queries, each.keys))
        for row in range(queries.shape[0]):
            for place, query in enumerate(queries[row].tolist()):
                if query >= 0:
                    seen = keys[row, : place + 1].tolist() if each.causal else keys[row].tolist()
                    for key in seen:
                        count[query, key] = count.get((query, key), 0) + 1
    return count, calls


@pytest.mark.parametrize("seed", range(20))
def test_every_pair_once(seed: int) -> None:
    draw = random.Random(seed)
    parts: list[PromptRows] = []
    wanted = set()
    for _ in range(draw.randint(1, 6)):
        start = parts[-1].end if parts else 0
        part = PromptRows(
            start,
            draw.choice([1, 3, 3, 5, 40]),
            tuple(draw.choice([1, 2, 9, 10, 11, 50]) for _ in range(draw.randint(0, 5))),
        )
        parts.append(part)
        prompt, begin = list(range(part.start, part.middle)), part.middle
        wanted |= {(query, key) for query in prompt for key in prompt if key <= query}
        for length in part.rows:
            row = range(begin, begin + length)
            wanted |= {(query, key) for query in row for key in [*prompt, *row] if key <= query}
            begin += length
    found, _ = read_by(tuple(parts))
    assert set(found) == wanted
    assert set(found.values()) == {1}


def test_rows_of_about_one_length_are_one_call() -> None:
    parts: list[PromptRows] = []
    for _ in range(32):
        parts.append(PromptRows(parts[-1].end if parts else 0, 5, (3, 4, 4, 5, 5, 4, 3, 2)))
    # Prompts and rows are all within 8 tokens of each other, and all prompts have one length.
    assert read_by(tuple(parts))[1] == 2
    # 100 and 20 are neither within a third nor within 8 tokens; 100 and 75 are within a third.
    assert read_by((PromptRows(0, 100, (20, 20, 75)),))[1] == 3
