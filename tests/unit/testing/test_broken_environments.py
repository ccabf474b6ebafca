"""Environments with one fault each: every one fails its own check and no other."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import Any

import pytest

from grpo_lightning.environments.base import Environment, Observation
from grpo_lightning.testing import environments
from grpo_lightning.types import Episode
from helpers.failures import assert_fails_only, failures


class Asks(Environment):
    """Asks again twice, and tells in which turn it is: a sound one."""

    name = "asks"
    gives_states = True
    max_turns = 3
    max_observation_tokens = 16

    def start(self, episodes: Sequence[Episode]) -> list[str | None] | None:
        return ["turn 0"] * len(episodes)

    def answer(self, episode: Episode) -> Observation:
        turns = len(episode.turns)
        return Observation("Again? ", 0.5, f"turn {turns}") if turns < 3 else Observation(None, 1.0)

    def step(self, episodes: Sequence[Episode]) -> list[Observation]:
        return [self.answer(episode) for episode in episodes]


class Skips(Asks):
    """Does not answer the last episode."""

    name = "skips"

    def step(self, episodes: Sequence[Episode]) -> list[Observation]:
        return super().step(episodes)[:-1]


class NoNumber(Asks):
    """Rewards a turn with NaN."""

    name = "no_number"

    def answer(self, episode: Episode) -> Observation:
        return Observation(None, float("nan"))


class NoTurns(Asks):
    """Lets nobody write."""

    name = "no_turns"
    max_turns = 0


class NoRoom(Asks):
    """Shows texts, and gives them no tokens."""

    name = "no_room"
    max_observation_tokens = 0


class SilentOnStates(Asks):
    """Says that it tells states, and does not tell the first."""

    name = "silent_on_states"

    def start(self, episodes: Sequence[Episode]) -> None:
        return None


class Rewrites(Asks):
    """Writes its reward into the turn itself."""

    name = "rewrites"

    def answer(self, episode: Episode) -> Observation:
        episode.turns[-1].reward = 7.0
        return super().answer(episode)


class Moody(Asks):
    """Answers by how often it was ever asked."""

    name = "moody"
    asked = itertools.count()

    def answer(self, episode: Episode) -> Observation:
        return Observation(f"{next(self.asked)}: ", None, "turn")


class MoodyOnPurpose(Moody):
    """The same, which says so."""

    name = "moody_on_purpose"
    deterministic = False


class ByPlace(Asks):
    """Knows episodes by their place in the list."""

    name = "by_place"

    def step(self, episodes: Sequence[Episode]) -> list[Observation]:
        return [Observation(f"{place}: ", None, "turn") for place, _ in enumerate(episodes)]


class Remembers(Asks):
    """Goes on counting in the next rollout."""

    name = "remembers"

    def __init__(self) -> None:
        self.seen: dict[Any, int] = {}

    def answer(self, episode: Episode) -> Observation:
        key = (episode.group, episode.member)
        self.seen[key] = self.seen.get(key, 0) + 1
        return Observation(f"{self.seen[key]}: ", None, "turn")


class ASCIIOnly(Asks):
    """Takes every text for ASCII."""

    name = "ascii_only"

    def answer(self, episode: Episode) -> Observation:
        return Observation(None, float(len(episode.completion.encode("ascii"))))


class SetsVariable(Asks):
    """Sets an environment variable at every turn."""

    name = "sets_variable"

    def answer(self, episode: Episode) -> Observation:
        os.environ["GRPO_LIGHTNING_TEST_OF_THE_KIT"] = str(len(episode.turns))
        return super().answer(episode)


BROKEN = [
    (Skips, "answers_every_episode", "for 6 episodes"),
    (NoNumber, "answers_in_text_and_numbers", "The reward of a turn is a finite number"),
    (NoTurns, "has_turns", "set max_turns = 4"),
    (NoRoom, "has_room_for_what_it_shows", "set max_observation_tokens = 128"),
    (SilentOnStates, "tells_its_states", "return a key for each episode from start"),
    (Rewrites, "leaves_episodes_alone", "keep what you must remember in an attribute of your own"),
    (Moody, "is_deterministic", "say deterministic = False"),
    (ByPlace, "answers_episodes_by_themselves", "know an episode by (group, member)"),
    (Remembers, "begins_anew", "forget in start"),
    (ASCIIOnly, "answers_any_text", "It raised UnicodeEncodeError"),
    (SetsVariable, "leaves_the_process_alone", "a rollout changed the environment variables"),
]


@pytest.mark.parametrize(("component", "check", "teaches"), BROKEN, ids=lambda each: getattr(each, "__name__", None))
def test_fails_only_its_check(component: type, check: str, teaches: str) -> None:
    assert_fails_only(component, check, teaches)


def test_every_check_has_a_component_that_fails_it() -> None:
    assert {check for _, check, _ in BROKEN} == {check.name for check in environments.CHECKS}


@pytest.mark.parametrize("component", [Asks, MoodyOnPurpose])
def test_a_good_one_passes(component: type) -> None:
    assert failures(component) == {}
