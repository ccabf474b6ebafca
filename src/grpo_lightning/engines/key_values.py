"""Keys and values of many sequences side by side, in memory that is taken once."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor


class KeyValues:
    """Keys and values, ``[places, length, key heads, depth]`` for each layer.

    A layer's memory is taken when it first has something to keep, so that nothing about the model needs to be known.

    Args:
        places: Sequences that fit.
        length: Tokens that fit in each.
    """

    def __init__(self, places: int, length: int) -> None:
        self.places, self.length = places, length
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}

    def of(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """The memory of ``layer``, of the type and shape of ``key`` and ``value``, [N, key heads, depth] each."""
        if layer not in self._layers:
            self._layers[layer] = (self._take(key), self._take(value))
        return self._layers[layer]

    def _take(self, like: Tensor) -> Tensor:
        # Zeros, since what a mask hides is still multiplied by 0.
        return like.new_zeros(self.places, self.length, *like.shape[1:])

    def move(self, source: int, target: int, length: int) -> None:
        """Let the sequence at ``source``, ``length`` tokens of it, be the one at ``target``, too."""
        for memory in self._layers.values():
            for each in memory:
                each[target, :length] = each[source, :length]

    def grow(self, places: int) -> None:
        """Make room for ``places`` sequences; those that are there stay where they are."""
        for layer, memory in self._layers.items():
            key, value = (each.new_zeros(places, *each.shape[1:]) for each in memory)
            key[: self.places], value[: self.places] = memory
            self._layers[layer] = (key, value)
        self.places = places

    def put(self, other: KeyValues, sources: Tensor, targets: Tensor, length: int) -> None:
        """Begin the sequences at ``targets`` with the first ``length`` tokens of those at ``sources`` of ``other``."""
        for kept, given in self._beside(other):
            kept[targets, :length] = given[sources, :length]

    def append(self, other: KeyValues, place: int, start: int, length: int) -> None:
        """Let ``length`` tokens of the sequence at ``place`` of ``other`` be in the one at ``place``, from ``start`` on."""
        for kept, given in self._beside(other):
            kept[place, start : start + length] = given[place, :length]

    def _beside(self, other: KeyValues) -> Iterator[tuple[Tensor, Tensor]]:
        """The keys and the values of each layer here, next to those of ``other``."""
        for layer, memory in other._layers.items():
            yield from zip(self.of(layer, *(each[0] for each in memory)), memory, strict=True)
