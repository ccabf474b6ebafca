"""Many scores to one reward."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from grpo_lightning.errors import RewardError, require
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.scores import Scores


class Composed(NamedTuple):
    """Rewards of a rollout."""

    rewards_R: Tensor
    """[R] float64: composed reward; NaN where the row abstains."""
    components: dict[str, Tensor]
    """[R] float64 by entry: raw scores; NaN where the entry abstains or does not apply."""
    weights: dict[str, Tensor]
    """[R] float64 by entry: weight of the score in the weighted sum, 0 where it is left out; gates and logged ones have 0."""
    factor_R: Tensor
    """[R] float64: product of the gates, 1 without."""
    parts_R: Tensor
    """[R] float64: sum of the magnitudes that were added up to the reward."""


def entry_name(entry: RewardEntry) -> str:
    """Name of an entry in logs: its own, else its reward's (for a function, the function's)."""
    return entry.name or entry.reward.label


def counts(entry: RewardEntry) -> bool:
    """Whether the entry has a part in the composed reward, rather than only being logged."""
    return not entry.log_only and (entry.gate or entry.weight != 0)


def check_entries(entries: Sequence[RewardEntry], setting: str) -> None:
    """Check the list of rewards as a whole.

    Raises:
        ConfigError: If it is empty, two entries share a name, or every entry is only logged.
    """
    require(bool(entries), setting, list(entries), "holds no reward", "list at least one")
    names = [entry_name(entry) for entry in entries]
    for name, times in Counter(names).items():
        require(times == 1, setting, name, f"is the name of {times} rewards", "give each entry a name of its own")
    fix = "give one a weight other than 0, without log_only"
    require(any(counts(entry) for entry in entries), setting, names, "are all only logged", fix)


def compose(entries: Sequence[RewardEntry], scores: Scores) -> Composed:
    """(sum_k w_k r_k) * prod_j r_j for each row, k over its weighted and j over its gate entries.

    Only entries that apply to a row and count (not ``log_only``, weight not 0) take part:

    - A weighted entry that abstains is left out; with ``on_abstain: zero`` it counts 0. If one that says
      ``renormalise`` is left out, the sum is multiplied by (sum of ``|w|`` of all the row's entries) / (the same of
      those not left out). Magnitudes, so that a negative weight cannot turn the sign of the others.
    - A gate that abstains, or does not apply, passes (factor 1); with ``on_abstain: zero`` an abstaining one is 0.
    - A row abstains if all its weighted entries are left out or none applies to it.
    - A row of a dropped group abstains.
    - Where the list has gates only, their product is the reward, and a row abstains if all its gates do.

    Args:
        entries: The list of rewards.
        scores: Their scores.

    Raises:
        RewardError: If a composed reward is not finite.

    Example:
        >>> from grpo_lightning.rewards.entry import RewardEntry
        >>> from grpo_lightning.rewards.exact_match import ExactMatch
        >>> scores = Scores({"a": [1.0, None]}, {"a": [None, None]}, {"a": [True, True]}, {"a": 0})
        >>> compose([RewardEntry(reward=ExactMatch(), weight=2.0, name="a")], scores).rewards_R.tolist()
        [2.0, nan]
    """
    components = {name: _tensor(scores.raw[name]) for name in map(entry_name, entries)}
    weighted = [entry for entry in entries if counts(entry) and not entry.gate]
    gates = [entry for entry in entries if counts(entry) and entry.gate]
    rows = len(next(iter(components.values()))) if components else 0
    factor_R, gated_R = _product(gates, scores, components, rows)
    weights = {name: torch.zeros(rows, dtype=torch.float64) for name in components}
    if weighted:
        sum_R, present_R = _sum(weighted, scores, components, weights)
        rewards_R = torch.where(present_R, sum_R * factor_R, torch.nan)
    else:
        rewards_R = torch.where(gated_R, factor_R, torch.nan)
    lost_R = rewards_R.isinf() | (rewards_R.isnan() & (present_R if weighted else gated_R))
    if scores.dropped:
        rewards_R[torch.tensor(scores.dropped)] = torch.nan
    if lost_R.any():
        row = int(lost_R.nonzero()[0])
        raise RewardError(f"the composed reward of row {row} is not finite: {_row(components, row)}")
    parts_R = rewards_R.abs()
    if weighted:
        parts_R = factor_R.abs() * sum(
            weights[name].abs() * components[name].nan_to_num(nan=0.0).abs() for name in weights
        )
    return Composed(rewards_R, components, weights, factor_R, parts_R)


def turn_rewards(scores: Scores, composed: Composed, turns: Sequence[int]) -> list[list[float]]:
    """What each turn of a row earned: a turn's scores by their weights and gates, and all else at the last turn.

    Over a row they add up to its reward; a row that abstains earns nothing.

    Args:
        scores: Scores of the rows.
        composed: Their rewards.
        turns: Turns of each row.
    """
    earned = []
    for row, (count, reward) in enumerate(zip(turns, composed.rewards_R.tolist(), strict=True)):
        own = [0.0] * max(count, 1)
        if reward == reward:
            for name, by_row in scores.turn_scores.items():
                weight = float(composed.weights[name][row] * composed.factor_R[row])
                for turn, score in enumerate(by_row[row] or []):
                    own[turn] += 0.0 if score is None else weight * score
            own[-1] += reward - sum(own)
        earned.append(own)
    return earned


def _sum(
    weighted: Sequence[RewardEntry], scores: Scores, components: dict[str, Tensor], weights: dict[str, Tensor]
) -> tuple[Tensor, Tensor]:
    """The weighted sum, and whether any entry is in it; the weights that count are written into ``weights``."""
    rows = len(next(iter(components.values())))
    sum_R = torch.zeros(rows, dtype=torch.float64)
    weight_R, present_weight_R = torch.zeros_like(sum_R), torch.zeros_like(sum_R)
    renormalise_R = torch.zeros(rows, dtype=torch.bool)
    for entry in weighted:
        value_R, applies_R, present_R = _seen(entry, scores, components)
        sum_R += torch.where(present_R, entry.weight * value_R, 0.0)
        weights[entry_name(entry)] = entry.weight * present_R.to(torch.float64)
        weight_R += abs(entry.weight) * applies_R
        present_weight_R += abs(entry.weight) * present_R
        if entry.on_abstain == "renormalise":
            renormalise_R |= applies_R & ~present_R
    scale_R = torch.where(renormalise_R & (present_weight_R > 0), weight_R / present_weight_R, 1.0)
    for entry in weighted:
        weights[entry_name(entry)] *= scale_R
    return sum_R * scale_R, present_weight_R > 0


def _product(
    gates: Sequence[RewardEntry], scores: Scores, components: dict[str, Tensor], rows: int
) -> tuple[Tensor, Tensor]:
    """The product of the gates, and whether any gate is in it."""
    product_R = torch.ones(rows, dtype=torch.float64)
    any_R = torch.zeros(rows, dtype=torch.bool)
    for entry in gates:
        value_R, _, present_R = _seen(entry, scores, components)
        product_R *= torch.where(present_R, value_R, 1.0)
        any_R |= present_R
    return product_R, any_R


def _seen(entry: RewardEntry, scores: Scores, components: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Its value by row, whether it applies, and whether it is part of the row's reward."""
    name = entry_name(entry)
    value_R, applies_R = components[name], torch.tensor(scores.applies[name], dtype=torch.bool)
    if entry.on_abstain == "zero":
        value_R = torch.where(applies_R, value_R.nan_to_num(nan=0.0), value_R)
    return value_R, applies_R, applies_R & ~value_R.isnan()


def _tensor(raw: Sequence[float | None]) -> Tensor:
    return torch.tensor([torch.nan if score is None else score for score in raw], dtype=torch.float64)


def _row(components: dict[str, Tensor], row: int) -> str:
    return ", ".join(f"{name} {float(values_R[row]):g}" for name, values_R in components.items())
