from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_lightning.functional.packing import pack, pack_sharing, similar_lengths, worst_case_bins

SIZES = st.lists(st.integers(0, 40), max_size=40)


def test_by_hand() -> None:
    # 5 and 4 do not fit into 8 with each other; 4 and 3 do; then 3, 2, 2.
    assert pack([3, 5, 2, 4, 3, 2], capacity=8) == [[1], [3, 0], [4, 2, 5]]
    assert pack([], capacity=8) == []
    assert pack([8, 8], capacity=8) == [[0], [1]]
    assert pack([4, 4, 4, 4], capacity=8) == [[0, 1], [2, 3]]


def test_an_item_above_the_capacity_is_alone() -> None:
    assert pack([20, 1, 30, 0], capacity=8) == [[2], [0], [1, 3]]


@settings(max_examples=60, deadline=None)
@given(sizes=SIZES, capacity=st.integers(1, 60))
def test_every_item_once_within_the_capacity_and_the_bound(sizes: list[int], capacity: int) -> None:
    bins = pack(sizes, capacity)
    assert sorted(index for each in bins for index in each) == list(range(len(sizes)))
    for each in bins:
        assert each
        assert len(each) == 1 or sum(sizes[index] for index in each) <= capacity
    for largest in {max(sizes, default=1), max(sizes, default=1) + 7}:
        assert len(bins) <= worst_case_bins(len(sizes), largest, capacity)


@settings(max_examples=60, deadline=None)
@given(sizes=SIZES, capacity=st.integers(1, 60))
def test_bins_hold_items_of_like_size_from_large_to_small(sizes: list[int], capacity: int) -> None:
    order = [(-sizes[index], index) for each in pack(sizes, capacity) for index in each]
    assert order == sorted(order)


def test_the_bound_by_hand() -> None:
    assert worst_case_bins(10, largest=3, capacity=8) == 5  # two items a bin at least
    assert worst_case_bins(11, largest=3, capacity=8) == 6
    assert worst_case_bins(10, largest=9, capacity=8) == 10
    assert worst_case_bins(0, largest=3, capacity=8) == 1
    assert worst_case_bins(5, largest=0, capacity=8) == 1
    assert worst_case_bins(4, largest=8, capacity=8) == 4


def test_the_bound_is_reached_by_equal_items() -> None:
    assert len(pack([3] * 11, capacity=8)) == worst_case_bins(11, largest=3, capacity=8)


def cost(rows: list[int], prompts: list[int], prompt_sizes: list[int], sizes: list[int]) -> int:
    return sum(sizes[row] for row in rows) + sum(prompt_sizes[prompt] for prompt in {prompts[row] for row in rows})


def test_sharing_by_hand() -> None:
    # Prompt 0 with its rows: 10 + 5; prompt 1: 10 + 7. Both need a bin; the larger one comes first.
    assert pack_sharing([0, 0, 1, 1], [10, 10], [3, 2, 3, 4], capacity=17) == [[3, 2], [0, 1]]
    assert pack_sharing([0, 0, 1, 1], [10, 10], [3, 2, 3, 4], capacity=32) == [[3, 2, 0, 1]]
    # 10 + 9 is too much for 16. The row of 4 is taken first, and 3 does not fit beside it; 10 + 3 + 2 is more than 10 + 4.
    assert pack_sharing([0, 0, 0], [10], [3, 2, 4], capacity=16) == [[0, 1], [2]]
    assert pack_sharing([0, 0], [10], [3, 2], capacity=4) == [[0], [1]]
    assert pack_sharing([], [10], [], capacity=4) == []


def test_prompts_are_cut_at_bins_only_where_there_would_be_too_many() -> None:
    prompts, sizes = [0] * 4 + [1] * 4 + [2] * 4, [2] * 12
    # 1 + 8 each: two prompts do not fit 16, so three bins; row by row, the second prompt is in two.
    assert [len(each) for each in pack_sharing(prompts, [1, 1, 1], sizes, capacity=16)] == [4, 4, 4]
    assert pack_sharing(prompts, [1, 1, 1], sizes, capacity=16, most=2) == [[0, 1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11]]


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 20)), max_size=40),
    prompt_sizes=st.lists(st.integers(1, 20), min_size=5, max_size=5),
    capacity=st.integers(1, 90),
)
def test_sharing_keeps_the_capacity_and_the_bound(
    rows: list[tuple[int, int]], prompt_sizes: list[int], capacity: int
) -> None:
    prompts, sizes = [row[0] for row in rows], [row[1] for row in rows]
    largest = max((prompt_sizes[prompt] + size for prompt, size in rows), default=1)
    most = worst_case_bins(len(rows), largest, capacity)
    free, bounded = (pack_sharing(prompts, prompt_sizes, sizes, capacity, limit) for limit in (None, most))
    for bins in (free, bounded):
        assert sorted(index for each in bins for index in each) == list(range(len(rows)))
        assert all(len(each) == 1 or cost(each, prompts, prompt_sizes, sizes) <= capacity for each in bins)
    assert len(bounded) <= most
    for prompt in set(prompts):
        mine = [row for row in range(len(rows)) if prompts[row] == prompt]
        if cost(mine, prompts, prompt_sizes, sizes) <= capacity:
            assert sum(any(prompts[row] == prompt for row in each) for each in free) == 1


def test_runs_of_similar_lengths() -> None:
    assert similar_lengths([]) == []
    # 100 <= 1.34 * 75 = 100.5, and 100 > 1.34 * 74 = 99.2; 74 > 1.34 * 55 = 73.7
    assert similar_lengths([100, 75, 74, 55]) == [slice(0, 2), slice(2, 3), slice(3, 4)]
    assert similar_lengths([12, 4, 3], slack=8) == [slice(0, 2), slice(2, 3)]
    # 4 <= 1.34 * 3 = 4.02
    assert similar_lengths([12, 4, 3]) == [slice(0, 1), slice(1, 3)]
