"""From what a reward returned to one number a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from grpo_lightning.rewards.counts import RewardCounts

FailureKind = Literal[
    "raised", "timeout", "crashed", "wrong_length", "no_number", "not_finite", "gradient", "out_of_range"
]
"""What can be wrong with a score."""
FAILURE_KINDS: tuple[str, ...] = get_args(FailureKind)
FLOAT64_EPSILON = float(np.finfo(np.float64).eps)


@dataclass
class Scores:
    """Scores of every row by every entry, before weights. All lists have one entry a row."""

    raw: dict[str, list[float | None]]
    """By entry: ``None`` where it abstains or does not apply."""
    turn_scores: dict[str, list[list[float | None] | None]]
    """By entry: the scores of a row's turns where the reward gave a list, else ``None``."""
    applies: dict[str, list[bool]]
    """By entry: whether it was asked about the row."""
    failures: dict[str, int]
    """By entry: rows whose score failed and was replaced by the declared policy."""
    epsilon: float = FLOAT64_EPSILON
    """Largest machine epsilon of the types in which scores that count arrived."""
    dropped: list[bool] = field(default_factory=list)
    """Rows of groups that leave training because a score of one of them failed; empty where there is none."""
    counts: RewardCounts = field(default_factory=dict)
    """By entry: what its calls came to, by the keys of :mod:`~grpo_lightning.rewards.counts`."""


@dataclass(frozen=True)
class RowScore:
    """The score of one row."""

    total: float | None
    turns: list[float | None] | None = None
    epsilon: float = FLOAT64_EPSILON


class InvalidScore(ValueError):  # noqa: N818 - it is a value that is wrong; the firewall makes an error of it
    """What a reward returned is no score; the message continues "reward x ...".

    Args:
        text: What is wrong.
        kind: How it is counted.
    """

    def __init__(self, text: str, kind: FailureKind) -> None:
        super().__init__(text)
        self.kind = kind


RowResult = RowScore | InvalidScore
"""What a call gave one of its rows."""


def read_rows(returned: Any, turns: Sequence[int]) -> list[RowResult]:
    """What a call gave each of its rows; where it is no list of scores, the failure for each.

    Args:
        returned: What the reward returned.
        turns: Turns of each row.
    """
    try:
        values = split_rows(returned, len(turns))
    except InvalidScore as error:
        return [error] * len(turns)
    results: list[RowResult] = []
    for value, count in zip(values, turns, strict=True):
        try:
            results.append(parse_row(value, count))
        except InvalidScore as error:
            results.append(error)
    return results


def within(result: RowResult, allowed: Sequence[float | None] | None) -> RowResult:
    """The result, or the failure that its score lies outside the allowed range."""
    if allowed is None or isinstance(result, InvalidScore) or result.total is None:
        return result
    low, high = allowed
    if (low is not None and result.total < low) or (high is not None and result.total > high):
        shown = f"[{'-inf' if low is None else f'{low:g}'}, {'inf' if high is None else f'{high:g}'}]"
        return InvalidScore(f"gave {result.total:g}, which is outside its range {shown}", "out_of_range")
    return result


def split_rows(returned: Any, rows: int) -> list[Any]:
    """One value a row from what a reward returned.

    Raises:
        InvalidScore: If it is no sequence of ``rows`` entries, or a tensor that carries a gradient.
    """
    if isinstance(returned, Tensor):
        _refuse_gradient(returned)
    if isinstance(returned, Tensor | np.ndarray):
        values = list(returned) if returned.ndim else None
    elif isinstance(returned, Sequence) and not isinstance(returned, str | bytes):
        values = list(returned)
    else:
        values = None
    if values is None:
        raise InvalidScore(
            f"returned {_short(returned)}, not a list with one score for each of {rows} rows", "wrong_length"
        )
    if len(values) != rows:
        raise InvalidScore(f"returned {len(values)} scores for {rows} rows", "wrong_length")
    return values


def parse_row(value: Any, turns: int) -> RowScore:
    """The score of a row of ``turns`` turns from the value that a reward gave it.

    Args:
        value: A number, ``None``, or one of these for each turn.
        turns: Turns of the row.

    Returns:
        Its total: the sum over turns that have a score; ``None`` where none has.

    Raises:
        InvalidScore: If it is none of these, not finite, or a list that is not as long as the row has turns.
    """
    if isinstance(value, Tensor):
        _refuse_gradient(value)
    is_list = value.ndim > 0 if isinstance(value, Tensor | np.ndarray) else isinstance(value, list | tuple)
    if not is_list:
        number, epsilon = _number(value)
        return RowScore(number, None, epsilon)
    values = list(value)
    if len(values) != turns:
        raise InvalidScore(f"gave {len(values)} scores for the {turns} turns of a row", "wrong_length")
    parsed = [_number(each) for each in values]
    scores = [number for number, _ in parsed]
    given = [number for number in scores if number is not None]
    return RowScore(
        _finite(sum(given), scores) if given else None,
        scores,
        max((epsilon for _, epsilon in parsed), default=FLOAT64_EPSILON),
    )


def _number(value: Any) -> tuple[float | None, float]:
    """The number and the machine epsilon of its type."""
    epsilon = FLOAT64_EPSILON
    if value is None:
        return None, epsilon
    if isinstance(value, Tensor) and value.ndim == 0 and not value.is_complex():
        _refuse_gradient(value)
        if value.is_floating_point():
            epsilon = max(epsilon, torch.finfo(value.dtype).eps)
        return _finite(value.item(), value), epsilon
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, np.floating):
        epsilon = max(epsilon, float(np.finfo(value.dtype).eps))
    if not isinstance(value, Real | np.bool_):
        raise InvalidScore(f"gave {_short(value)}, which is no number", "no_number")
    try:
        return _finite(float(value), value), epsilon
    except OverflowError:
        raise InvalidScore(f"gave {_short(value)}, which is too large", "not_finite") from None


def _finite(number: float, shown: Any) -> float:
    if not math.isfinite(number):
        raise InvalidScore(f"gave {_short(shown)}, which is not finite", "not_finite")
    return float(number)


def _refuse_gradient(value: Tensor) -> None:
    if value.requires_grad:
        raise InvalidScore("gave a tensor that carries a gradient (detach it)", "gradient")


def _short(value: Any) -> str:
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a number of too many digits, say
        text = f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= 80 else text[:77] + "..."
