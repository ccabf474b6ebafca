"""From what a reward returned to one number a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

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


@dataclass(frozen=True)
class RowScore:
    """The score of one row."""

    total: float | None
    turns: list[float | None] | None = None
    epsilon: float = FLOAT64_EPSILON


class InvalidScore(ValueError):  # noqa: N818 - it is a value that is wrong; the runner makes an error of it
    """What a reward returned is no score; the message continues "reward x ..."."""


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
        raise InvalidScore(f"returned {_short(returned)}, not a list with one score for each of {rows} rows")
    if len(values) != rows:
        raise InvalidScore(f"returned {len(values)} scores for {rows} rows")
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
    if len(value) != turns:
        raise InvalidScore(f"gave {len(value)} scores for the {turns} turns of a row")
    parsed = [_number(each) for each in value]
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
        raise InvalidScore(f"gave {_short(value)}, which is no number")
    try:
        return _finite(float(value), value), epsilon
    except OverflowError:
        raise InvalidScore(f"gave {_short(value)}, which is too large") from None


def _finite(number: float, shown: Any) -> float:
    if not math.isfinite(number):
        raise InvalidScore(f"gave {_short(shown)}, which is not finite")
    return float(number)


def _refuse_gradient(value: Tensor) -> None:
    if value.requires_grad:
        raise InvalidScore("gave a tensor that carries a gradient (detach it)")


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."
