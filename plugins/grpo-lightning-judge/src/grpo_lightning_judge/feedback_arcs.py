"""An order that contradicts few comparisons, for groups that are too large for the exact one."""

from __future__ import annotations

from grpo_lightning_judge.kemeny import Weights


def greedy_order(weights: Weights) -> list[int]:
    """An order with a small ``sum_(i before j) w_ji``: a greedy one, then moved to a local minimum.

    The greedy one is that of Eades, Lin and Smyth (1993) with weights: whoever lost to nobody left goes to the front,
    whoever beat nobody left to the back, otherwise the one with the largest ``wins - losses`` to the front. Then single
    items move to their best place while that lowers the cost. Ties go to the lower index.

    Example:
        >>> greedy_order([[0, 0, 0], [1, 0, 0], [1, 1, 0]])
        [2, 1, 0]
    """
    left = list(range(len(weights)))
    front: list[int] = []
    back: list[int] = []
    while left:
        won = {item: sum(weights[item][other] for other in left) for item in left}
        lost = {item: sum(weights[other][item] for other in left) for item in left}
        chosen = next((item for item in left if not lost[item]), None)
        if chosen is None and (sink := next((item for item in left if not won[item]), None)) is not None:
            back.insert(0, sink)
            left.remove(sink)
            continue
        if chosen is None:
            chosen = max(left, key=lambda item: (won[item] - lost[item], -item))
        front.append(chosen)
        left.remove(chosen)
    return _improve([*front, *back], weights)


def _improve(order: list[int], weights: Weights) -> list[int]:
    """Move single items to where they cost least, until no move lowers the cost."""
    moved = True
    while moved:
        moved = False
        for item in sorted(order):
            place = order.index(item)
            gain, target = _best_place(order, place, weights)
            if gain > 1e-9:
                order.insert(target, order.pop(place))
                moved = True
    return order


def _best_place(order: list[int], place: int, weights: Weights) -> tuple[float, int]:
    """The largest saving by moving the item at ``place``, and the place after it was taken out."""
    item = order[place]
    best, target = 0.0, place
    saving = 0.0
    for left in range(place - 1, -1, -1):  # passing an earlier one: its loss to it is borne, its win over it no longer
        saving += weights[item][order[left]] - weights[order[left]][item]
        if saving > best + 1e-9:
            best, target = saving, left
    saving = 0.0
    for right in range(place + 1, len(order)):
        saving += weights[order[right]][item] - weights[item][order[right]]
        if saving > best + 1e-9:
            best, target = saving, right
    return best, target
