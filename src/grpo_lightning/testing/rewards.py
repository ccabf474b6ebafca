"""Checks of rewards."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from grpo_lightning.rewards.arguments import requested_arguments
from grpo_lightning.rewards.base import Reward
from grpo_lightning.testing.check import Specimen, checks, expect
from grpo_lightning.testing.difference import difference
from grpo_lightning.testing.episodes import UNICODE, episodes, with_columns
from grpo_lightning.testing.global_state import unchanged_globals
from grpo_lightning.testing.scoring import arguments_of, ask, ready, scorable, score, unknown_arguments
from grpo_lightning.testing.time_limit import time_limit

LONG = 20_000
"""Characters of a very long completion."""
SECONDS = 5.0
"""How long the scores of a few very long completions may take."""


def check_asks_for_what_there_is(specimen: Specimen) -> None:
    """Every argument that it cannot do without is a reserved one, or a column that it says it reads."""
    found = unknown_arguments(specimen)
    mend = (
        "correct the name; if it is a column of the data, give values for it: example_columns = {'answer': ['7', None]} on the "
        "class, or columns in the test"
    )
    expect(
        found is None,
        "A reward asks by name for what there is: completions, ..., or columns of the data",
        str(found),
        mend,
    )


def check_scores_every_row(specimen: Specimen) -> None:
    """Every row gets, in order, a finite number, None, or a list with one of these for each turn."""
    if unknown_arguments(specimen) is None:
        score(ready(specimen), episodes(specimen.columns))


def check_scores_several_turns(specimen: Specimen) -> None:
    """Rows of several turns are scored too; a list in place of a score has an entry for each turn of its row."""
    if scorable(specimen):
        score(ready(specimen), episodes(specimen.columns, turns=3))


def check_scores_empty_completions(specimen: Specimen) -> None:
    """A completion without a character is scored like any other."""
    if scorable(specimen):
        score(ready(specimen), episodes(specimen.columns, groups=2, texts=["", " ", "\n"]))


def check_scores_any_text(specimen: Specimen) -> None:
    """Completions in any script, with emoji, control characters and marks, are scored."""
    if scorable(specimen):
        score(ready(specimen), episodes(specimen.columns, texts=UNICODE))


def check_is_quick_with_long_completions(specimen: Specimen) -> None:
    """Completions of 20,000 characters are scored in a few seconds, whatever repeats in them."""
    if not scorable(specimen):
        return
    reward = ready(specimen)
    pieces = ["a", "7", " ", "(", "<answer>", "\n", "\\boxed{", "1,"]
    texts = [piece * (LONG // len(piece)) + "!" for piece in pieces]
    must = f"A reward scores {len(texts)} completions of {LONG} characters within {SECONDS:g} seconds"
    mend = (
        "look for a regular expression with nested repetitions such as (a+)+, or for a loop over all pairs of characters; cut "
        "what is scored to a sensible length"
    )
    with time_limit(SECONDS, must, mend):
        score(reward, episodes(specimen.columns, groups=2, members=4, texts=texts))


def check_takes_missing_values(specimen: Specimen) -> None:
    """A row whose column is None is scored, or abstained from; it is no error."""
    if not scorable(specimen):
        return
    reward = ready(specimen)
    required, optional, _ = requested_arguments(reward)
    for name in sorted({*required, *optional, *reward.columns()} & set(specimen.columns)):
        rows = with_columns(episodes(specimen.columns), {name: None})
        try:
            score(reward, rows)
        except Exception as error:  # whatever a reward does with None
            expect(False, f"A row whose column {name!r} is None is scored, or abstained from",
                   f"{type(error).__name__}: {error}",
                   "return None for such a row: data files have gaps, and rows of another task lack the column")  # fmt: skip


def check_is_deterministic(specimen: Specimen) -> None:
    """Equal rows get equal scores, by the same reward and by one built alike, unless it declares otherwise."""
    if scorable(specimen) and _declares_determinism(specimen):
        found = _unstable(specimen)
        mend = (
            "draw no numbers and look at no clock; a score that must be drawn says deterministic = False on the class, and a "
            "resumed run is then not the same, bit for bit"
        )
        expect(found is None, "Equal rows get equal scores", str(found), mend)


def check_does_not_depend_on_the_order(specimen: Specimen) -> None:
    """In another order the rows get the same scores; whole groups are moved where the reward compares inside a group."""
    if not scorable(specimen) or _unstable(specimen) is not None:
        return
    reward, rows = ready(specimen), episodes(specimen.columns)
    order = list(range(len(rows)))[::-1]
    if _reads_groups(reward):
        order.sort(key=lambda row: (-rows[row].group, rows[row].member))
    before, after = score(reward, rows), score(ready(specimen), [rows[row] for row in order])
    found = difference([before[row] for row in order], after, "scores")
    mend = "score each row from its own completion and columns; where rows of a group are compared, ask for groups"
    expect(found is None, "Scores go with their rows, in whatever order these come", str(found), mend)


def check_scores_groups_by_themselves(specimen: Specimen) -> None:
    """The scores of a group are the same whatever other groups are scored with it."""
    if not scorable(specimen) or _unstable(specimen) is not None:
        return
    rows = episodes(specimen.columns)
    together = score(ready(specimen), rows)
    alone: list[Any] = []
    for group in dict.fromkeys(row.group for row in rows):
        alone += score(ready(specimen), [row for row in rows if row.group == group])
    mend = "compare inside groups only (the argument groups): which groups share a call depends on ranks and on concurrency"
    found = difference(together, alone, "scores")
    expect(found is None, "A group's scores depend on no other group", str(found), mend)


def check_leaves_its_arguments_alone(specimen: Specimen) -> None:
    """Scoring changes nothing in the lists that it is handed, nor in what they hold."""
    if not scorable(specimen):
        return
    reward = ready(specimen)
    arguments = arguments_of(reward, episodes(specimen.columns, turns=2))
    before = copy.deepcopy(arguments)
    ask(reward, arguments)
    found = difference(before, arguments, "arguments")
    mend = "copy before you sort, pop or write: other rewards get the same prompts, turns and columns"
    expect(found is None, "A reward changes nothing that it is handed", str(found), mend)


def check_carries_no_gradient(specimen: Specimen) -> None:
    """A score that is a tensor carries no gradient."""
    if not scorable(specimen):
        return
    reward = ready(specimen)
    returned = ask(reward, arguments_of(reward, episodes(specimen.columns)))
    values = [returned, *(returned if isinstance(returned, list | tuple) else [])]
    found = any(isinstance(value, Tensor) and value.requires_grad for value in values)
    expect(not found, "Scores carry no gradient", "a tensor that requires one", "return score.item(), or detach it")


def check_answers_with_text(specimen: Specimen) -> None:
    """``answer`` gives a text for every completion: majority votes compare it."""
    reward = ready(specimen)
    for completion in (*UNICODE, "", "The answer is 12.", "<answer>7</answer>"):
        answer = reward.answer(completion)
        expect(isinstance(answer, str), "answer() gives a text", f"{answer!r} for {completion!r}",
               "return '' where a completion has no answer")  # fmt: skip


def check_leaves_the_process_alone(specimen: Specimen) -> None:
    """Scoring changes nothing that the process shares: random states, default dtype, grad mode, folder, environment."""
    if scorable(specimen):
        reward = ready(specimen)
        arguments = arguments_of(reward, episodes(specimen.columns))
        with unchanged_globals("scoring"), torch.no_grad():
            ask(reward, arguments)


def _declares_determinism(specimen: Specimen) -> bool:
    return bool(getattr(specimen.component, "deterministic", True))


def _unstable(specimen: Specimen) -> str | None:
    """Where scores differ from call to call; ``None`` where they are equal."""
    rows, reward = episodes(specimen.columns), ready(specimen)
    first = score(reward, rows)
    again = difference(first, score(reward, rows), "scores of one reward, called twice: it")
    return again or difference(first, score(ready(specimen), rows), "scores of two rewards built alike: it")


def _reads_groups(reward: Reward) -> bool:
    required, optional, takes_all = requested_arguments(reward)
    return takes_all or bool({"groups", "members", "base_rewards"} & {*required, *optional})


CHECKS = checks(
    check_asks_for_what_there_is,
    check_scores_every_row,
    check_scores_several_turns,
    check_scores_empty_completions,
    check_scores_any_text,
    check_is_quick_with_long_completions,
    check_takes_missing_values,
    check_is_deterministic,
    check_does_not_depend_on_the_order,
    check_scores_groups_by_themselves,
    check_leaves_its_arguments_alone,
    check_carries_no_gradient,
    check_answers_with_text,
    check_leaves_the_process_alone,
)
