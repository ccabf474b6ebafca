"""Going through a data set again and again, each time in another order."""

from __future__ import annotations

from grpo_lightning.functional.seeding import addressed_permutation


class Passes:
    """The row at each position when a data set is gone through again and again: pass k in an order of (seed, stream, k).

    Args:
        seed: Seed of the run.
        stream: What the orders are for.
        size: Rows of the data set.

    Example:
        >>> passes = Passes(0, "example", 3)
        >>> sorted(passes.row(position) for position in range(3, 6))
        [0, 1, 2]
    """

    def __init__(self, seed: int, stream: str, size: int) -> None:
        self.seed, self.stream, self.size = seed, stream, size
        self._pass, self._order = -1, list[int]()

    def row(self, position: int) -> int:
        """Index of the row at ``position``, counted over all passes from 0."""
        number, place = divmod(position, self.size)
        if self._pass != number:
            self._pass = number
            self._order = addressed_permutation(self.seed, self.stream, (number,), self.size).tolist()
        return self._order[place]
