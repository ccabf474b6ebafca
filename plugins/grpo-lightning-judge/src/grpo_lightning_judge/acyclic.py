"""Making a tournament acyclic: wins that contradict an order with the fewest contradictions are turned round."""

from __future__ import annotations

from grpo_lightning_judge.feedback_arcs import greedy_order
from grpo_lightning_judge.kemeny import Weights, order_shares
from grpo_lightning_judge.wins import Credits, Margins, credits_of

EXACT = 8
"""Responses in a circle up to which the order is exact."""


def acyclic_credits(margins: Margins, tie: float) -> Credits:
    """The credits of an acyclic tournament that differs from ``margins`` by wins of least total weight.

    Wins that lie on no circle stay. Within a set of responses that are joined by circles (a strongly connected component)
    each decided pair gets the result that the minimal orders give it: exactly, as the mean over all minimal orders, for up
    to :data:`EXACT` of them, and by the greedy order above. Ties stay ties.

    Args:
        margins: Results of the comparisons, antisymmetric; the size of a margin is its weight.
        tie: Credit of a tie.

    Returns:
        Credits as of :func:`~grpo_lightning_judge.wins.credits_of`; a circle of three equal weights gives each of its
        pairs 2/3 and 1/3.
    """
    earned = credits_of(margins, tie)
    weights = [[max(margin or 0.0, 0.0) for margin in row] for row in margins]
    for component in strong_components(weights):
        if len(component) < 3:
            continue
        inner = [[weights[one][other] for other in component] for one in component]
        shares = order_shares(inner) if len(component) <= EXACT else _shares_of(greedy_order(inner))
        for place, one in enumerate(component):
            for other_place, other in enumerate(component):
                if margins[one][other]:
                    earned[one][other] = shares[place][other_place]
    return earned


def _shares_of(order: list[int]) -> list[list[float]]:
    place = {item: index for index, item in enumerate(order)}
    size = len(order)
    return [[float(place[one] < place[other]) for other in range(size)] for one in range(size)]


def strong_components(weights: Weights) -> list[list[int]]:
    """The sets of items that reach each other along wins, each in rising order.

    Example:
        >>> strong_components([[0, 1, 0, 1], [0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
        [[0, 1, 2], [3]]
    """
    size = len(weights)
    reach = [[one == other or weights[one][other] > 0 for other in range(size)] for one in range(size)]
    for middle in range(size):
        for one in range(size):
            if reach[one][middle]:
                reach[one] = [old or new for old, new in zip(reach[one], reach[middle], strict=True)]
    components: list[list[int]] = []
    for one in range(size):
        if not any(one in component for component in components):
            components.append([other for other in range(size) if reach[one][other] and reach[other][one]])
    return components
