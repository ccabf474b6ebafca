"""Orders that contradict the fewest comparisons, exactly, for small groups.

Kemeny's order minimises ``sum_(i before j) w_ji``, the weight of the wins of a later over an earlier one; the wins against
it are a minimum weighted feedback arc set.
"""

from __future__ import annotations

from collections.abc import Sequence

Weights = Sequence[Sequence[float]]
"""``[i][j]``: weight with which i beat j, 0 where it did not."""

_TOLERANCE = 1e-9


def order_shares(weights: Weights) -> list[list[float]]:
    """Share of the minimal orders in which i stands before j, by dynamic programming over subsets.

    Where comparisons run in a circle several orders are minimal; all of them count alike, so that nobody's place depends
    on the order in which responses are listed. Takes ``O(n^2 2^n)``.

    Returns:
        ``[i][j]`` in [0, 1]; for different i and j, ``[i][j] + [j][i] = 1``.

    Example:
        >>> order_shares([[0, 1, 0], [0, 0, 1], [0, 0, 0]])[0][2]
        1.0
        >>> order_shares([[0, 1, 0], [0, 0, 1], [1, 0, 0]])[0][1]  # 0 > 1 > 2 > 0: two of the three orders have 0 before 1
        0.6666666666666666
    """
    size = len(weights)
    full = (1 << size) - 1
    if not size:
        return []
    before = [_added_cost(weights, subset) for subset in range(full + 1)]
    head, head_orders = _best_heads(before, size)
    tail, tail_orders = _best_tails(before, size)
    total = head_orders[full]
    shares = [[0.0] * size for _ in range(size)]
    for subset in range(full + 1):
        for last in _outside(subset, size):
            wider = subset | 1 << last
            cost = head[subset] + before[subset][last] + tail[wider]
            if cost > head[full] + _TOLERANCE:
                continue
            share = head_orders[subset] * tail_orders[wider] / total
            for earlier in range(size):
                if subset >> earlier & 1:
                    shares[earlier][last] += share
    return shares


def cost_of(order: Sequence[int], weights: Weights) -> float:
    """``sum_(i before j) w_ji``: the weight of the wins that an order contradicts."""
    return sum(weights[later][earlier] for place, earlier in enumerate(order) for later in order[place + 1 :])


def _outside(subset: int, size: int) -> list[int]:
    return [item for item in range(size) if not subset >> item & 1]


def _added_cost(weights: Weights, subset: int) -> list[float]:
    """By item: the weight of its wins over the members of ``subset``, which an order has to bear that puts it behind."""
    size = len(weights)
    members = [item for item in range(size) if subset >> item & 1]
    return [sum(weights[item][member] for member in members) for item in range(size)]


def _best_heads(before: Sequence[Sequence[float]], size: int) -> tuple[list[float], list[int]]:
    """By subset: the least cost of an order of its members, and how many orders have it."""
    cost, orders = [float("inf")] * (1 << size), [0] * (1 << size)
    cost[0], orders[0] = 0.0, 1
    for subset in range(1 << size):
        for last in _outside(subset, size):
            _offer(cost, orders, subset | 1 << last, cost[subset] + before[subset][last], orders[subset])
    return cost, orders


def _best_tails(before: Sequence[Sequence[float]], size: int) -> tuple[list[float], list[int]]:
    """By subset: the least cost of putting all others behind it, and how many orders of them have it."""
    full = (1 << size) - 1
    cost, orders = [float("inf")] * (1 << size), [0] * (1 << size)
    cost[full], orders[full] = 0.0, 1
    for subset in range(full - 1, -1, -1):
        for following in _outside(subset, size):
            wider = subset | 1 << following
            _offer(cost, orders, subset, before[subset][following] + cost[wider], orders[wider])
    return cost, orders


def _offer(cost: list[float], orders: list[int], subset: int, offered: float, count: int) -> None:
    if offered < cost[subset] - _TOLERANCE:
        cost[subset], orders[subset] = offered, count
    elif offered <= cost[subset] + _TOLERANCE:
        orders[subset] += count
