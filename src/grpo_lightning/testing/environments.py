"""Checks of environments."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

from grpo_lightning.environments.base import Environment, Observation
from grpo_lightning.testing.check import Specimen, checks, expect
from grpo_lightning.testing.difference import difference
from grpo_lightning.testing.episodes import TEXTS, UNICODE, completions_for, prompts, turn
from grpo_lightning.testing.global_state import preserved_globals, unchanged_globals
from grpo_lightning.types import Episode

MOST_TURNS = 20
"""Turns that are played at most, however many the environment allows."""
Answers = dict[tuple[int, int], list[Observation]]
"""What each episode, by group and member, was answered."""


def check_answers_every_episode(specimen: Specimen) -> None:
    """``step`` gives one observation for each running episode, in order."""
    found = _unsound(specimen)
    expect(found is None, "step returns a list with an Observation for each running episode", str(found),
           "return [Observation(...) for episode in episodes]")  # fmt: skip


def check_answers_in_text_and_numbers(specimen: Specimen) -> None:
    """An observation has a text or None, a finite reward or None, and a state's key or None."""
    if not _sound(specimen):
        return
    for answers in _play(specimen.make(), _episodes(specimen)).values():
        for each in answers:
            good = each.text is None or isinstance(each.text, str)
            expect(
                good,
                "The text of an observation is text, or None to end the episode",
                repr(each.text),
                "write str(...)",
            )
            good = each.reward is None or (isinstance(each.reward, int | float) and math.isfinite(each.reward))
            expect(
                good,
                "The reward of a turn is a finite number, or None",
                repr(each.reward),
                "give float(...), or None for none",
            )
            good = each.state is None or isinstance(each.state, str)
            expect(
                good,
                "The key of a state is a text",
                repr(each.state),
                "write the state down as a text, equal for equal states",
            )


def check_has_turns(specimen: Specimen) -> None:
    """``max_turns`` is a whole number of at least 1."""
    turns = specimen.make().max_turns
    expect(
        type(turns) is int and turns >= 1,
        "The policy may write a whole number of turns",
        repr(turns),
        "set max_turns = 4, say",
    )


def check_has_room_for_what_it_shows(specimen: Specimen) -> None:
    """One that shows something before a further turn says how many tokens that may have."""
    if not _sound(specimen):
        return
    environment: Environment = specimen.make()
    answers = _play(environment, _episodes(specimen))
    shown = [each.text for own in answers.values() for each in own[: environment.max_turns - 1] if each.text]
    expect(not shown or environment.max_observation_tokens >= 1, "max_observation_tokens has room for what is shown",
           f"{environment.max_observation_tokens}, and {shown[:1]} is shown",
           "set max_observation_tokens = 128, say")  # fmt: skip


def check_tells_its_states(specimen: Specimen) -> None:
    """One that gives states tells the state of every episode at its start and before every further turn."""
    if not _sound(specimen):
        return
    environment: Environment = specimen.make()
    episodes = _episodes(specimen)
    keys = environment.start(episodes)
    mend = "return a key for each episode from start, and set Observation.state wherever text is not None"
    if keys is not None:
        expect(len(keys) == len(episodes), "start tells a state for each episode, or None", f"{keys!r}"[:100], mend)
    if not environment.gives_states:
        return
    expect(keys is not None and all(isinstance(key, str) for key in keys), "An environment with gives_states tells all states",
           f"start returned {keys!r}"[:100], mend)  # fmt: skip
    for own in _play(specimen.make(), _episodes(specimen)).values():
        silent = [each for each in own if each.text is not None and each.state is None]
        expect(not silent, "An environment with gives_states tells all states", f"{silent[:1]}", mend)


def check_leaves_episodes_alone(specimen: Specimen) -> None:
    """Neither ``start`` nor ``step`` changes an episode: the loop writes down what was answered."""
    environment: Environment = specimen.make()
    episodes = _episodes(specimen)
    before = copy.deepcopy(episodes)
    environment.start(episodes)
    found = difference(before, episodes, "episodes")
    _write(episodes, 0)
    before = copy.deepcopy(episodes)
    environment.step(episodes)
    found = found or difference(before, episodes, "episodes")
    expect(found is None, "An environment changes no episode", str(found),
           "return an Observation; keep what you must remember in an attribute of your own")  # fmt: skip


def check_is_deterministic(specimen: Specimen) -> None:
    """Equal episodes are answered equally, by two built alike, unless it declares otherwise."""
    if not getattr(specimen.component, "deterministic", True) or not _sound(specimen):
        return
    found = _unstable(specimen)
    expect(found is None, "Equal episodes get equal answers", str(found),
           "seed what is drawn by the episode's group and member; else say deterministic = False on the class")  # fmt: skip


def check_answers_episodes_by_themselves(specimen: Specimen) -> None:
    """An episode's answers depend neither on the order of episodes nor on which others still run."""
    if not _sound(specimen) or _unstable(specimen) is not None:
        return
    together = _play(specimen.make(), _episodes(specimen))
    backwards = _play(specimen.make(), _episodes(specimen)[::-1])
    some = _play(specimen.make(), _episodes(specimen)[1::2])
    found = difference(together, backwards, "answers in another order: it")
    found = found or difference({key: together[key] for key in some}, some, "answers to fewer episodes: it")
    expect(found is None, "An episode is answered by itself", str(found),
           "know an episode by (group, member), not by its place in the list: finished ones leave it")  # fmt: skip


def check_begins_anew(specimen: Specimen) -> None:
    """A second rollout is answered as the first: nothing of it is left when ``start`` is called again."""
    if not _sound(specimen) or _unstable(specimen) is not None:
        return
    environment: Environment = specimen.make()
    first, second = _play(environment, _episodes(specimen)), _play(environment, _episodes(specimen))
    found = difference(first, second, "answers in two rollouts: it")
    expect(found is None, "Every rollout begins anew", str(found), "forget in start what you remember of episodes")


def check_answers_any_text(specimen: Specimen) -> None:
    """Turns that are empty, or in any script with any characters, are answered."""
    environment: Environment = specimen.make()
    for text in ("", *UNICODE):
        episodes = _episodes(specimen)
        environment.start(episodes)
        for episode in episodes:
            episode.turns.append(turn(text))
        environment.step(episodes)


def check_leaves_the_process_alone(specimen: Specimen) -> None:
    """A rollout changes nothing that the process shares: random states, default dtype, grad mode, folder, ..."""
    if not _sound(specimen):
        return
    environment, episodes = specimen.make(), _episodes(specimen)
    with unchanged_globals("a rollout"):
        _play(environment, episodes)


def _episodes(specimen: Specimen) -> list[Episode]:
    """Three groups of two, with nothing written yet."""
    return [
        Episode(prompt, group, member) for group, prompt in enumerate(prompts(specimen.columns)) for member in range(2)
    ]


def _turns(environment: Environment) -> int:
    return min(environment.max_turns, MOST_TURNS) if isinstance(environment.max_turns, int) else 1


def _write(running: Sequence[Episode], number: int) -> None:
    """The policy's turn: a text for each episode, the same whenever it is played."""
    for episode in running:
        texts = completions_for(episode.prompt.columns) if episode.prompt.columns else list(TEXTS)
        episode.turns.append(turn(texts[(3 * episode.group + episode.member + number) % len(texts)]))


def _going(running: Sequence[Episode], answers: Sequence[Observation]) -> list[Episode]:
    """The episodes that go on, with what they were answered."""
    going = []
    for episode, answer in zip(running, answers, strict=True):
        episode.turns[-1].reward = answer.reward
        if answer.text is not None:
            episode.turns[-1].observation = answer.text
            going.append(episode)
    return going


def _play(environment: Environment, episodes: Sequence[Episode]) -> Answers:
    """A rollout, to its end or the limit on turns."""
    environment.start(episodes)
    played: Answers = {(episode.group, episode.member): [] for episode in episodes}
    running = list(episodes)
    for number in range(_turns(environment)):
        if not running:
            break
        _write(running, number)
        answers = environment.step(running)
        for episode, answer in zip(running, answers, strict=True):
            played[episode.group, episode.member].append(answer)
        running = _going(running, answers)
    return played


def _unsound(specimen: Specimen) -> str | None:
    """Answers that are no list of observations, one an episode; ``None`` if all are."""
    environment, running = specimen.make(), _episodes(specimen)
    environment.start(running)
    for number in range(_turns(environment)):
        if not running:
            break
        _write(running, number)
        answers = environment.step(running)
        good = isinstance(answers, list | tuple) and len(answers) == len(running)
        if not good or not all(isinstance(each, Observation) for each in answers):
            return f"{answers!r}"[:100] + f" for {len(running)} episodes"
        running = _going(running, answers)
    return None


def _sound(specimen: Specimen) -> bool:
    """Whether it can be played at all."""
    try:
        with preserved_globals():
            return _unsound(specimen) is None
    except Exception:  # the environment's
        return False


def _unstable(specimen: Specimen) -> str | None:
    """Where the answers of two built alike differ; ``None`` if nowhere."""
    first, second = _play(specimen.make(), _episodes(specimen)), _play(specimen.make(), _episodes(specimen))
    return difference(first, second, "answers of two built alike: it")


CHECKS = checks(
    check_answers_every_episode,
    check_answers_in_text_and_numbers,
    check_has_turns,
    check_has_room_for_what_it_shows,
    check_tells_its_states,
    check_leaves_episodes_alone,
    check_is_deterministic,
    check_answers_episodes_by_themselves,
    check_begins_anew,
    check_answers_any_text,
    check_leaves_the_process_alone,
)
