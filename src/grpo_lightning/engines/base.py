"""The contract of engines: who generates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from grpo_lightning.component import Component
from grpo_lightning.policies.base import Policy
from grpo_lightning.samplers.base import Sampler
from grpo_lightning.types import Ragged


@dataclass(frozen=True)
class RowEnd:
    """A row that has ended while others are still written, as it will be in the :class:`Completions`."""

    row: int
    """Its index in the request."""
    tokens: list[int]
    log_probs: list[float]
    """Rounded to float32, as completions hold them."""
    finish: int
    """:class:`~grpo_lightning.types.FinishReason`."""


@dataclass(frozen=True)
class GenerationRequest:
    """Completions wanted, one for each of Q rows."""

    contexts: Ragged
    """[C] sequences: what is continued. Rows may share one."""
    context_Q: Tensor
    """[Q] int64: index into ``contexts``."""
    address_QA: Tensor
    """[Q, 5] int64: (rollout, group ordinal, attempt, member, turn) of each row; with a position it addresses a draw."""
    sampler: Sampler
    seed: int
    stream: str
    """What the draws are for: ``train``, ``validation/NAME`` or ``test/NAME``."""
    limit_Q: Tensor
    """[Q] int64: steps that each row may write, at least 1."""
    stop_ids: frozenset[int]
    """Ids that end a row; the id itself is part of the completion."""
    stop_strings: Sequence[str] = ()
    """Texts that end a row as soon as they are written; they are part of the completion."""
    version: int = 0
    """Updates that the current weights have seen. No draw depends on it; it tells recordings of one address apart, such
    as those of a validation set that is completed again and again."""
    ended: Callable[[RowEnd], None] | None = None
    """Called, in the thread of ``generate``, with a row as soon as it has ended. An engine need not do so; if it does, then
    once a row, and no result depends on it. What it raises goes through ``generate``."""

    def key(self, row: int) -> tuple[int, ...]:
        """Address of a row, as plain numbers."""
        return tuple(self.address_QA[row].tolist())


@dataclass(frozen=True)
class Completions:
    """What an engine returns, in the order of the request."""

    tokens: Ragged
    """[Q] sequences int64, at least one token each."""
    log_probs: Ragged
    """[Q] sequences float32: log-probability of each token under the distribution really sampled from."""
    finish_Q: Tensor
    """[Q] int64: :class:`~grpo_lightning.types.FinishReason`."""
    support: Ragged | None
    """[sum of lengths] sequences of int32 ids, ascending: what could be chosen at each token; empty ones or ``None`` for
    everything."""
    version: int | None = None
    """Updates that the sampling weights had seen; ``None`` for the current ones."""


class Engine(Component, ABC):
    """Continues contexts."""

    kind = "engine"
    addressed: ClassVar[bool]
    """Draws are functions of their address, so equal logits give equal tokens whatever the batch or world size."""
    deterministic: ClassVar[bool]
    """Equal requests and equal weights give equal completions."""

    @abstractmethod
    def generate(self, policy: Policy, request: GenerationRequest) -> Completions:
        """Complete every row of ``request``. Called without gradient, under the precision of the update."""

    keeps_weights: ClassVar[bool] = False
    """It samples with weights of its own, and is told when those of the policy have moved."""

    def refresh(self, policy: Policy, version: int) -> Any:
        """Take new weights; called on the first process, before a rollout or an evaluation, if ``keeps_weights``.

        Args:
            policy: The policy, its weights whole.
            version: Updates that they have seen.

        Returns:
            What the engines of the other processes must know, as plain numbers, texts, lists and dicts.
        """

    def join(self, told: Any) -> None:
        """The first process has called :meth:`refresh`, which returned ``told``; called on the others."""

    def close(self) -> None:
        """The run is over: end what the engine has started."""
