from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from grpo_lightning.errors import ConfigError
from grpo_lightning.selectors.resample import Resample
from helpers.tables import reward_table

TABLE = reward_table([[1.0, 1.0], [1.0, 0.0], [None, None], [0.0, None]])
ADVANTAGES = torch.tensor([0.0, 0.0, 0.5, -0.5, 0.0, 0.0, 0.0, 0.0], dtype=torch.float64)


def test_silent_groups_are_drawn_again_until_the_bound_is_met() -> None:
    selector = Resample(max_attempts=2)
    assert selector(ADVANTAGES, TABLE, 0).redraw.tolist() == [0, 2, 3]
    assert selector(ADVANTAGES, TABLE, 1).redraw.tolist() == [0, 2, 3]
    assert selector(ADVANTAGES, TABLE, 2).redraw.tolist() == []
    assert selector(ADVANTAGES, TABLE, 3).redraw.tolist() == []


def test_it_goes_on_as_soon_as_every_group_has_signal() -> None:
    table = reward_table([[1.0, 0.0], [0.0, 2.0]])
    selection = Resample()(torch.tensor([0.5, -0.5, -1.0, 1.0], dtype=torch.float64), table, 0)
    assert selection.redraw.tolist() == []
    assert selection.keep_R.all()


def test_what_happens_to_groups_that_stay_silent() -> None:
    dropped = Resample(max_attempts=1, then="drop")(ADVANTAGES, TABLE, 1)
    assert dropped.keep_R.tolist() == [False, False, True, True, False, False, False, False]
    kept = Resample(max_attempts=1, then="keep")(ADVANTAGES, TABLE, 1)
    assert kept.keep_R.tolist() == [True, True, True, True, False, False, True, False]


def test_ordinals_are_those_of_the_rollout() -> None:
    table = replace(TABLE, group_R=TABLE.group_R * 10 + 5)
    assert Resample()(ADVANTAGES, table, 0).redraw.tolist() == [5, 25, 35]


def test_own_prompt_or_the_next_one() -> None:
    assert Resample()(ADVANTAGES, TABLE, 0).prompts == "same"
    assert Resample(prompts="fresh")(ADVANTAGES, TABLE, 0).prompts == "fresh"


def test_an_empty_table_asks_for_nothing() -> None:
    selection = Resample()(torch.zeros(0, dtype=torch.float64), reward_table([]), 0)
    assert (selection.keep_R.tolist(), selection.redraw.tolist()) == ([], [])


@pytest.mark.parametrize(("setting", "value"), [("prompts", "new"), ("max_attempts", 0), ("then", "fail")])
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        Resample(**{setting: value})
    assert error.value.setting == setting
