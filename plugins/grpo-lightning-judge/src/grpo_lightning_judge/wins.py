"""From comparisons to rewards: wins within a group (SCR) and wins against anchors (AGR).

Both build rewards from ranks, never from the probabilities of a judge's tokens: ``r_i = alpha sum_(j != i) [o_i > o_j]``
over the responses to one prompt, and ``r_i = alpha sum_k [o_i > a_k]`` over its anchors.
"""

from __future__ import annotations

from collections.abc import Sequence

Margins = Sequence[Sequence[float | None]]
"""``[i][j]`` in [-1, 1]: positive where i beat j, 0 for a tie, ``None`` where they were not compared."""
Credits = list[list[float | None]]
"""``[i][j]`` in [0, 1]: what i earns by its comparison with j; ``None`` where they were not compared."""


def credit(margin: float | None, tie: float) -> float | None:
    """1 for a win, 0 for a loss, ``tie`` for a tie.

    Example:
        >>> [credit(margin, tie=0.0) for margin in (0.3, 0.0, -1.0, None)]
        [1.0, 0.0, 0.0, None]
    """
    if margin is None:
        return None
    return 1.0 if margin > 0 else 0.0 if margin < 0 else tie


def credits_of(margins: Margins, tie: float) -> Credits:
    """The credits of every comparison."""
    return [[credit(margin, tie) for margin in row] for row in margins]


def rewards_of(
    earned: Sequence[Sequence[float | None]], *, opponents: int, alpha: float, normalise: bool
) -> list[float | None]:
    """``alpha * opponents * mean of the row's credits``; the mean alone with ``normalise``.

    Where every opponent was met that is ``alpha`` times the wins. Where some were not, because pairs were sampled or a
    question got no answer, the wins are scaled up to all opponents, so that rows with fewer comparisons are not
    punished for it.

    Args:
        earned: Credits by response and opponent; ``None`` where they were not compared.
        opponents: Opponents that a response has when all are met.
        alpha: Reward of one win.
        normalise: Give the share of wins in [0, 1] instead.

    Returns:
        One number a response; ``None`` where it met nobody.
    """
    scale = 1.0 if normalise else alpha * opponents
    result: list[float | None] = []
    for row in earned:
        met = [value for value in row if value is not None]
        result.append(scale * sum(met) / len(met) if met else None)
    return result
