from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_lightning.functional.largest import at_least


@settings(max_examples=60, deadline=None)
@given(values=st.lists(st.integers(0, 4), min_size=1, max_size=9), data=st.data())
def test_equals_a_sort_by_value_and_id(values: list[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(values)))
    order = sorted(range(len(values)), key=lambda i: (-values[i], i))[:count]
    result = at_least(torch.tensor([values]), torch.tensor([values[order[-1]]]), torch.tensor([count]))
    assert result[0].nonzero().squeeze(1).tolist() == sorted(order)


def test_each_row_has_its_own_count() -> None:
    values = torch.tensor([[1.0, 1.0, 1.0], [3.0, 1.0, 2.0], [0.0, 5.0, 5.0]])
    result = at_least(values, torch.tensor([1.0, 2.0, 5.0]), torch.tensor([2, 2, 1]))
    assert result.tolist() == [[True, True, False], [True, False, True], [False, True, False]]
