"""Who meets whom: orders and pairs that depend on the texts and a seed only.

No random generator is used: equal texts are paired alike on every rank, in every run, in whatever order they are listed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def content_order(texts: Sequence[str], *, seed: int, context: str) -> list[int]:
    """Indices of ``texts`` in an order drawn from a hash of ``seed``, ``context``, all texts and the text itself.

    Of equal texts the one with the lower index comes first among them; they are drawn apart from each other.

    Args:
        texts: What is ordered.
        seed: Changes the order.
        context: Changes the order too: the prompt, the number of a vote.
    """
    whole = _digest([str(seed), context, *sorted(texts)])
    seen: dict[str, int] = {}
    keys = []
    for index, text in enumerate(texts):
        repeat = seen[text] = seen.get(text, -1) + 1
        keys.append((_digest([whole, text, str(repeat)]), index))
    return [index for _, index in sorted(keys)]


def round_robin(players: int) -> list[list[tuple[int, int]]]:
    """The rounds in which everybody meets everybody once, each round with disjoint pairs (the circle method).

    An even number of players has ``players - 1`` rounds; an odd one has ``players``, and one sits out in each.

    Example:
        >>> round_robin(4)
        [[(0, 3), (1, 2)], [(0, 2), (3, 1)], [(0, 1), (2, 3)]]
    """
    circle: list[int | None] = [*range(players), *([None] if players % 2 else [])]
    rounds = []
    for _ in range(len(circle) - 1):
        half = len(circle) // 2
        pairs = zip(circle[:half], reversed(circle[half:]), strict=True)
        rounds.append([(one, other) for one, other in pairs if one is not None and other is not None])
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return rounds


def _digest(parts: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()
