"""Floating point operations counted from a model's shape; a multiplication and an addition are two.

Only products of matrices are counted: of the linear layers of the body, of attention, and of the language model head. A
backward pass multiplies twice for each product of the forward pass, and attention five times for its two, since it computes
the scores again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Shape:
    """What of a decoder-only transformer counts."""

    layers: int
    hidden: int
    inner: int
    heads: int
    key_heads: int
    depth: int
    vocabulary: int

    @classmethod
    def of(cls, config: Any) -> Shape:
        """The shape in a configuration of transformers."""
        heads = config.num_attention_heads
        return cls(
            layers=config.num_hidden_layers,
            hidden=config.hidden_size,
            inner=config.intermediate_size,
            heads=heads,
            key_heads=config.num_key_value_heads,
            depth=getattr(config, "head_dim", None) or config.hidden_size // heads,
            vocabulary=config.vocab_size,
        )

    def linears(self) -> dict[tuple[int, int], int]:
        """Linear layers of the body: how many there are of each (inputs, outputs)."""
        query, key = self.heads * self.depth, self.key_heads * self.depth
        found: dict[tuple[int, int], int] = {}
        for shape, count in [
            ((self.hidden, query), 1),
            ((self.hidden, key), 2),
            ((query, self.hidden), 1),
            ((self.hidden, self.inner), 2),
            ((self.inner, self.hidden), 1),
        ]:
            found[shape] = found.get(shape, 0) + count * self.layers
        return found

    def weights(self) -> int:
        """Entries of the linear layers of the body."""
        return sum(inputs * outputs * count for (inputs, outputs), count in self.linears().items())


@dataclass(frozen=True)
class Operations:
    """Operations of a pass, part by part."""

    body: float
    attention: float
    head: float

    @property
    def total(self) -> float:
        """All of them."""
        return self.body + self.attention + self.head

    def __add__(self, other: Operations) -> Operations:
        return Operations(self.body + other.body, self.attention + other.attention, self.head + other.head)

    def times(self, count: float) -> Operations:
        """The same pass ``count`` times."""
        return Operations(self.body * count, self.attention * count, self.head * count)


def causal_pairs(new: int, before: int = 0) -> int:
    """Pairs (query, key) when ``new`` tokens follow ``before``, each attending to itself and to all in front of it."""
    return new * before + new * (new + 1) // 2


def forward(shape: Shape, tokens: int, pairs: int, predictions: int) -> Operations:
    """A forward pass over ``tokens`` tokens with ``pairs`` attended pairs, the head at ``predictions`` of them."""
    return Operations(
        body=2.0 * shape.weights() * tokens,
        attention=4.0 * shape.heads * shape.depth * shape.layers * pairs,
        head=2.0 * shape.hidden * shape.vocabulary * predictions,
    )


def forward_backward(shape: Shape, tokens: int, pairs: int, predictions: int) -> Operations:
    """A forward and a backward pass."""
    once = forward(shape, tokens, pairs, predictions)
    return Operations(3.0 * once.body, 3.5 * once.attention, 3.0 * once.head)


def train_dense(shape: Shape, group: int, prompt: int, completion: int) -> Operations:
    """Training a group whose rows hold a prompt each; the last token of a row predicts nothing and is not run."""
    tokens = prompt + completion - 1
    return forward_backward(shape, group * tokens, group * causal_pairs(tokens), group * completion)


def train_shared(shape: Shape, group: int, prompt: int, completion: int) -> Operations:
    """Training a group whose prompt is run once. Its last token predicts the first step of every row."""
    own = completion - 1
    pairs = causal_pairs(prompt) + group * causal_pairs(own, before=prompt)
    return forward_backward(shape, prompt + group * own, pairs, group * completion)


def generate_shared(shape: Shape, group: int, prompt: int, completion: int) -> Operations:
    """Sampling a group: its prompt once, then token by token."""
    prefill = forward(shape, prompt, causal_pairs(prompt), 1)
    own = completion - 1
    return prefill + forward(shape, own, causal_pairs(own, before=prompt), own).times(group)


def tokens(group: int, prompt: int, completion: int, *, shared: bool) -> int:
    """Tokens of a group as it is trained: what its activations take grows with them."""
    own = completion - 1
    return prompt + group * own if shared else group * (prompt + own)
