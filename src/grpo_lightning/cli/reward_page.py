"""Scores of recorded completions as text."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_lightning.cli.recorded_scores import RecordedScores
from grpo_lightning.cli.reward_report import statistics, total_statistics, warnings

SHOWN = 20
"""Rows that are shown."""
TEXT = 40
"""Characters of a completion that are shown."""


def page(scored: RecordedScores) -> str:
    """The first rows, a line for each reward, and what to look at."""
    rows, groups = len(scored.recording.episodes), scored.recording.groups
    lines = [
        f"{scored.recording.path}: {_many(rows, 'row')} in {_many(groups, 'group')}, scored by {scored.setup.title}",
        "",
    ]
    lines += _rows(scored)
    if rows > SHOWN:
        lines.append(f"({rows - SHOWN} more; --json shows all)")
    lines += ["", *_rewards(scored), ""]
    silent, several = scored.silent_groups()
    if several:
        lines.append(f"groups without signal: {silent} of {several} ({silent / several:.0%})")
    lines += [f"warning: {warning}" for warning in warnings(scored)]
    return "\n".join(lines).rstrip() + "\n"


def _rows(scored: RecordedScores) -> list[str]:
    components = scored.composed.components
    table = [["line", "group", *components, "total", "completion"]]
    for row, episode in enumerate(scored.recording.episodes[:SHOWN]):
        numbers = [number(float(values_R[row])) for values_R in components.values()]
        total = number(float(scored.composed.rewards_R[row]))
        table.append([str(scored.recording.lines[row]), str(episode.group), *numbers, total, _text(episode.completion)])
    return aligned(table, left={len(table[0]) - 1})


def _rewards(scored: RecordedScores) -> list[str]:
    table = [["reward", "role", "mean", "std", "min", "max", "abstained", "failed", "seconds", "ms a row"]]
    for each in statistics(scored):
        failed = " ".join(f"{count} {kind}" for kind, count in each.failed.items()) or "0"
        numbers = [number(value) for value in (each.mean, each.std, each.min, each.max)]
        times = [f"{each.seconds:.3f}", f"{1000 * each.seconds_per_row:.3f}"]
        table.append([each.name, each.role, *numbers, str(each.abstained), failed, *times])
    total = total_statistics(scored)
    numbers = [number(total[key]) for key in ("mean", "std", "min", "max")]
    table.append(["total", "", *numbers, str(total["abstained"]), "", "", ""])
    return aligned(table, left={0, 1})


def aligned(table: Sequence[Sequence[str]], left: set[int]) -> list[str]:
    """Lines of a table whose columns stand below each other: text to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]


def number(value: float | None) -> str:
    """A score as text; a dash where there is none.

    Example:
        >>> number(0.5), number(None), number(float("nan"))
        ('0.500', '-', '-')
    """
    return "-" if value is None or value != value else f"{value:.3f}"


def _text(completion: str) -> str:
    text = " ".join(completion.split())
    return text if len(text) <= TEXT else text[: TEXT - 3] + "..."


def _many(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")
