from __future__ import annotations

import copy
from typing import Any, ClassVar

import pytest
import torch
from grpo_lightning_reasoning_gym.difficulty import Difficulty

import grpo_lightning
from grpo_lightning.errors import ConfigError
from grpo_lightning.testing.suites import CurriculumChecks
from grpo_lightning.types import RolloutTable

SIZES = {"easy": 6, "middle": 5, "hard": 4}


class TestConforms(CurriculumChecks):
    component = Difficulty


class TestMovingConforms(CurriculumChecks):
    component = Difficulty
    arguments: ClassVar = {"levels": ["hard", "easy"], "up": 0.3, "down": 0.2, "window": 3, "earlier": 0.4}


def bound(seed: int = 3, **arguments: Any) -> Difficulty:
    made = Difficulty(**({"window": 4} | arguments))
    made.bind(SIZES, seed)
    return made


def see(curriculum: Difficulty, scores: list[list[float | None]], names: list[str]) -> None:
    """Tell of one rollout: scores of each group's rows, and each group's data set."""
    rewards = [score for group in scores for score in group]
    groups = [ordinal for ordinal, group in enumerate(scores) for _ in group]
    nan = float("nan")
    parts = {"half": torch.tensor([nan if each is None else each / 2 for each in rewards], dtype=torch.float64)}
    curriculum.observe([(name, 0) for name in names], RolloutTable.of(rewards, groups, components=parts))


def test_short_name_is_known_once_the_package_is_installed() -> None:
    assert isinstance(grpo_lightning.create("curriculum", "difficulty"), Difficulty)


def test_next_level_begins_when_the_mean_is_high_enough() -> None:
    curriculum = bound(up=0.75)
    see(curriculum, [[1, 1], [1, 1]], ["easy"] * 2)  # two of four prompts seen
    assert (curriculum.level, curriculum.mean) == (0, 1.0)
    see(curriculum, [[0, 1], [0, 0]], ["easy"] * 2)  # (1 + 1 + 1/2 + 0) / 4 = 0.625
    assert (curriculum.level, curriculum.mean) == (0, 0.625)
    see(curriculum, [[1, 1], [1, 1]], ["easy"] * 2)  # the last four: (1/2 + 0 + 1 + 1) / 4 = 0.625
    assert curriculum.level == 0
    see(curriculum, [[1, 0]], ["easy"])  # (0 + 1 + 1 + 1/2) / 4 = 0.625
    see(curriculum, [[1, 0]], ["easy"])  # (1 + 1 + 1/2 + 1/2) / 4 = 0.75
    assert (curriculum.level, curriculum.mean) == (1, None)
    assert {name for name, _ in curriculum.draw(20)} == {"middle"}


def test_other_levels_do_not_count() -> None:
    curriculum = bound(start=1)
    see(curriculum, [[1], [1], [1], [1]], ["easy"] * 4)
    assert (curriculum.level, curriculum.mean) == (1, None)


def test_goes_back_only_if_told_to_and_stays_inside() -> None:
    poor, good = [[0.0]] * 4, [[1.0]] * 4
    stays, falls = bound(start=1), bound(start=1, down=0.1)
    for curriculum in (stays, falls):
        see(curriculum, poor, ["middle"] * 4)
    assert (stays.level, falls.level) == (1, 0)
    see(falls, poor, ["easy"] * 4)
    assert falls.level == 0
    last = bound(start=2)
    see(last, good, ["hard"] * 4)
    assert (last.level, last.mean) == (2, 1.0)


def test_abstaining_rows_and_groups_do_not_count() -> None:
    curriculum = bound(window=2)
    see(curriculum, [[None, 1.0], [None, None]], ["easy"] * 2)
    assert curriculum.recent == [1.0]


def test_one_reward_and_successes_can_count() -> None:
    by_reward, by_success = bound(score="half", window=8), bound(success=0.9, window=8)
    for curriculum in (by_reward, by_success):
        see(curriculum, [[1.0, 0.8], [0.9, 0.0]], ["easy"] * 2)
    assert by_reward.recent == pytest.approx([0.45, 0.225])
    assert by_success.recent == [0.5, 0.5]
    with pytest.raises(ConfigError, match=r"data.curriculum.score: 'hlaf' is no reward; did you mean 'half'"):
        see(bound(score="hlaf"), [[1.0]], ["easy"])


def test_earlier_levels_have_their_share_evenly() -> None:
    names = [name for name, _ in bound(start=2, earlier=0.4).draw(6000)]
    # Four standard deviations of a count are 4 * sqrt(6000 * p * (1 - p)).
    assert abs(names.count("hard") - 3600) < 152
    assert abs(names.count("easy") - 1200) < 124
    assert abs(names.count("middle") - 1200) < 124


def test_every_row_comes_once_a_pass() -> None:
    drawn = bound().draw(18)
    for start in (0, 6, 12):
        assert sorted(drawn[start : start + 6]) == [("easy", index) for index in range(6)]
    assert drawn[:6] != drawn[6:12]


def test_drawing_twice_is_drawing_once() -> None:
    parts, whole = bound(start=1, earlier=0.5), bound(start=1, earlier=0.5)
    assert parts.draw(3) + parts.draw(5) == whole.draw(8)


def run(curriculum: Difficulty, rollouts: range) -> list[Any]:
    seen: list[Any] = []
    for rollout in rollouts:
        prompts = curriculum.draw(4)
        scores: list[list[float | None]] = [[float((rollout + place) % 4 > 0), 1.0] for place in range(4)]
        seen.append((curriculum.level, prompts))
        see(curriculum, scores, [name for name, _ in prompts])
    return seen


SETTINGS = {"up": 0.8, "down": 0.5, "window": 6, "earlier": 0.3}


def test_two_ranks_draw_equally() -> None:
    assert run(bound(**SETTINGS), range(12)) == run(bound(**SETTINGS), range(12))
    assert run(bound(**SETTINGS), range(12)) != run(bound(seed=4, **SETTINGS), range(12))


@pytest.mark.parametrize("stop", range(12))
def test_resumes_exactly_at_every_rollout(stop: int) -> None:
    whole = run(bound(**SETTINGS), range(12))
    assert {level for level, _ in whole} == {0, 1, 2}
    first = bound(**SETTINGS)
    before = run(first, range(stop))
    second = bound(**SETTINGS)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    assert before + run(second, range(stop, 12)) == whole


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"window": 0}, "window: 0 is outside"),
        ({"earlier": 1.0}, "earlier: 1.0 is outside"),
        ({"up": 0.5, "down": 0.5}, "down: 0.5 is outside"),
        ({"levels": []}, "levels: .* is empty"),
        ({"levels": ["easy", "easy"]}, "levels: .* names one twice"),
        ({"levels": ["easy", "mddle", "hard"]}, "levels: 'mddle' is no data set; did you mean 'middle'"),
        ({"levels": ["easy"]}, "levels: 'middle' is a data set without a level"),
        ({"start": 3}, "start: 3 is no level; set 0 to 2"),
    ],
)
def test_settings_are_checked(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        bound(**arguments)
