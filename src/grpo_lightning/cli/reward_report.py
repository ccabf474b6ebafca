"""What recorded completions say about the rewards that score them: numbers, and what to look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from grpo_lightning.cli.recorded_columns import counted_in_characters
from grpo_lightning.cli.recorded_scores import RecordedScores
from grpo_lightning.functional.groups import Groups
from grpo_lightning.rewards.composer import counts, entry_name
from grpo_lightning.rewards.entry import RewardEntry

SLOW = 10.0
"""Seconds that a rollout may wait for one reward before that is told."""
DWARFS = 10.0
"""Times that the spread of one reward may exceed that of all others together before that is told."""


@dataclass(frozen=True)
class RewardStatistics:
    """One reward over all rows that it applies to. Mean, standard deviation (of the rows, divided by their number) and
    extremes are those of its scores, abstentions left out; ``None`` where there is no score."""

    name: str
    role: str
    """``weight 0.5``, ``gate`` or ``logged``."""
    rows: int
    """Rows that it was asked about."""
    mean: float | None
    std: float | None
    min: float | None
    max: float | None
    abstained: int
    """Rows without a score, failed ones that abstain among them."""
    failed: dict[str, int]
    """Rows by kind of failure."""
    seconds: float
    seconds_per_row: float


def statistics(scored: RecordedScores) -> list[RewardStatistics]:
    """One entry a reward, in the order of the configuration."""
    return [_statistics(scored, entry) for entry in scored.setup.entries]


def _statistics(scored: RecordedScores, entry: RewardEntry) -> RewardStatistics:
    name = entry_name(entry)
    rows = sum(scored.scores.applies[name])
    found = _present(scored.composed.components[name])
    role = "logged" if not counts(entry) else "gate" if entry.gate else f"weight {entry.weight:g}"
    kinds = {
        key.partition("/")[2]: int(count)
        for key, count in scored.scores.counts.get(name, {}).items()
        if key.startswith("failures/") and count
    }
    seconds = scored.count(name, "seconds")
    return RewardStatistics(
        name=name,
        role=role,
        rows=rows,
        **_moments(found),
        abstained=rows - len(found),
        failed=kinds,
        seconds=seconds,
        seconds_per_row=seconds / max(rows, 1),
    )


def _moments(values: Tensor) -> dict[str, float | None]:
    if not len(values):
        return dict.fromkeys(("mean", "std", "min", "max"))
    numbers = {"mean": values.mean(), "std": values.std(correction=0), "min": values.min(), "max": values.max()}
    return {name: float(number) for name, number in numbers.items()}


def _present(values_R: Tensor) -> Tensor:
    return values_R[torch.isfinite(values_R)]


def total_statistics(scored: RecordedScores) -> dict[str, float | int | None]:
    """The same of the composed reward, and the groups without signal."""
    found = _present(scored.composed.rewards_R)
    silent, several = scored.silent_groups()
    return {
        "rows": len(scored.recording.episodes),
        "abstained": len(scored.recording.episodes) - len(found),
        **_moments(found),
        "groups": scored.recording.groups,
        "groups_compared": several,
        "groups_without_signal": silent,
    }


def warnings(scored: RecordedScores) -> list[str]:
    """What is likely to be wrong, each in one sentence."""
    found = [*_of_rows(scored)]
    for entry, each in zip(scored.setup.entries, statistics(scored), strict=True):
        found += _of_reward(scored, entry, each)
    return [*found, *_of_scale(scored)]


def _of_rows(scored: RecordedScores) -> Iterator[str]:
    silent, several = scored.silent_groups()
    if several == 0:
        yield "no two scored rows belong to one group, so nothing can be said about signal: give several completions a prompt"
    elif silent == several:
        yield f"the composed reward is constant within every one of the {several} groups: there is no signal to train on"
    for name in counted_in_characters(scored.setup.entries, scored.recording):
        yield f"{name} asks for lengths, and the rows have no completion_ids: characters are counted as tokens"


def _of_reward(scored: RecordedScores, entry: RewardEntry, each: RewardStatistics) -> Iterator[str]:
    if each.rows == 0:
        yield f"{each.name} applies to no row: its `when` matches none"
        return
    if each.failed:
        kinds = ", ".join(f"{count} {kind}" for kind, count in each.failed.items())
        then = "; a run would stop at the first" if each.name in scored.stopping else ""
        yield f"{each.name} failed on {sum(each.failed.values())} of {each.rows} rows ({kinds}){then}"
    if each.abstained == each.rows:
        if not each.failed:
            yield f"{each.name} abstains from every row"
    elif each.min == each.max and each.rows - each.abstained > 1:
        yield f"{each.name} is {each.mean:g} for every row"
    elif not entry.gate and _varies_nowhere(scored, each.name):
        yield f"{each.name} is constant within every group, so it cannot tell members apart"
    waiting = each.seconds_per_row * scored.setup.rollout_rows
    if waiting > SLOW:
        yield (
            f"{each.name} takes {1000 * each.seconds_per_row:.3g} ms a row: a rollout of {scored.setup.rollout_rows} rows "
            f"would wait {waiting:.3g} s for it; see its concurrency and cache"
        )


def _within(scored: RecordedScores, name: str) -> tuple[Tensor, Groups]:
    """A reward's scores in groups with several of them, and those groups."""
    values_R, group_R = scored.composed.components[name], scored.group_R
    rows = torch.isfinite(values_R).nonzero().squeeze(1)
    groups = Groups.of(group_R[rows])
    rows = rows[groups.sizes_G[groups.index_R] > 1] if len(rows) else rows
    return values_R[rows], Groups.of(group_R[rows])


def _varies_nowhere(scored: RecordedScores, name: str) -> bool:
    values_R, groups = _within(scored, name)
    return len(values_R) > 0 and bool(groups.unanimous(values_R, scored.scores.epsilon).all())


def _of_scale(scored: RecordedScores) -> Iterator[str]:
    """Compares root mean squares of ``w_k (r_k - mean_g)``: what each reward adds to differences inside groups."""
    spreads: dict[str, float] = {}
    for entry in scored.setup.entries:
        if counts(entry) and not entry.gate:
            values_R, groups = _within(scored, entry_name(entry))
            size = float(groups.centered(values_R).square().mean().sqrt()) if len(values_R) else 0.0
            spreads[entry_name(entry)] = abs(entry.weight) * size
    moving = {name: spread for name, spread in spreads.items() if spread > 0}
    for name, spread in moving.items():
        others = sum(moving.values()) - spread
        if others > 0 and spread > DWARFS * others:
            rest = " and ".join(other for other in moving if other != name)
            yield (
                f"{name} dwarfs {rest}: times its weight it varies by {spread:.3g} inside groups, the others by {others:.3g} "
                "together; change the weights if they shall count"
            )


def as_json(scored: RecordedScores) -> dict[str, object]:
    """Everything, for machines."""
    components = scored.composed.components
    rows = [
        {
            "line": line,
            "group": episode.group,
            "member": episode.member,
            "components": {name: _number(values_R[row]) for name, values_R in components.items()},
            "reward": _number(scored.composed.rewards_R[row]),
        }
        for row, (episode, line) in enumerate(zip(scored.recording.episodes, scored.recording.lines, strict=True))
    ]
    return {
        "config": scored.setup.title,
        "data": scored.recording.path,
        "rewards": [asdict(each) for each in statistics(scored)],
        "total": total_statistics(scored),
        "warnings": warnings(scored),
        "rows": rows,
    }


def _number(value: Tensor) -> float | None:
    return float(value) if torch.isfinite(value) else None
