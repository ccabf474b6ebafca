"""Groups of settings of a run that are no components."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from grpo_lightning.auxiliary.base import AuxiliaryLoss
from grpo_lightning.errors import require, require_range
from grpo_lightning.prompts.base import PromptSource
from grpo_lightning.samplers.base import Sampler


@dataclass(kw_only=True)
class Generation:
    """Limits of what the policy writes.

    Args:
        max_new_tokens: Steps that the policy may write in one turn.
        stop: Texts that end a turn as soon as they are written; they stay part of it.
        mask_truncated: Leave rows that met a limit out of the loss and of its normalisers. They stay in their group's
            statistics.
        rollouts_ahead: 1: the next rollout is sampled while this one trains, with the weights from before it; for an engine
            with weights of its own, and with a correction. 0: each rollout is sampled with the weights of its start.
    """

    max_new_tokens: int = 256
    stop: list[str] = field(default_factory=list)
    mask_truncated: bool = False
    rollouts_ahead: int = 0

    def __post_init__(self) -> None:
        require_range("max_new_tokens", self.max_new_tokens, low=1)
        require_range("rollouts_ahead", self.rollouts_ahead, low=0, high=1)
        require(all(self.stop), "stop", self.stop, "holds an empty text", "remove it")


@dataclass(kw_only=True)
class Warmup:
    """Supervised updates before GRPO, on rows of the training data.

    Args:
        updates: Optimizer steps. They count towards ``trainer.max_steps``.
        rows: Rows of data an update, over all ranks.
        learning_rate: Learning rate of these updates; the optimizer starts afresh after them.
        loss: Auxiliary loss that is trained.
    """

    updates: int
    rows: int = 64
    learning_rate: float = 1e-3
    loss: AuxiliaryLoss | str = "supervised"

    def __post_init__(self) -> None:
        require_range("updates", self.updates, low=0)
        require_range("rows", self.rows, low=1)
        require_range("learning_rate", self.learning_rate, low=0, low_open=True)


@dataclass(kw_only=True)
class AuxiliaryTerm:
    """A loss beside GRPO, over rows of the training data.

    The loss of an update is ``(1 - sum_k mu_k) L_GRPO + sum_k mu_k L_k``, the first sum over the terms with ``complement``
    and the second over all. ``mu`` rises from 0 to ``weight`` in equal steps over ``warmup_updates`` updates, then goes to
    ``final_weight`` over ``decay_updates`` updates, and stays there. One supervised term with ``complement`` is CHORD (Zhang et
    al., arXiv 2508.11408), whose ``mu`` falls as a cosine.

    Args:
        loss: The loss.
        weight: ``mu`` after its rise, at least 0.
        final_weight: ``mu`` after ``decay_updates`` updates; by default it does not change.
        warmup_updates: Updates over which ``mu`` rises.
        decay_updates: Updates over which ``mu`` changes from ``weight`` to ``final_weight``.
        decay: How it changes: ``cosine`` (half a period) or ``linear``.
        complement: Multiply the loss of GRPO by ``1 - mu``; ``mu`` is then at most 1.
        rows: Rows of data an update, over all ranks.
        name: Name in logs; by default the loss's own.
    """

    component_field: ClassVar[str] = "loss"

    loss: AuxiliaryLoss
    weight: float = 0.1
    final_weight: float | None = None
    warmup_updates: int = 0
    decay_updates: int = 0
    decay: Literal["cosine", "linear"] = "cosine"
    complement: bool = False
    rows: int = 32
    name: str | None = None

    def __post_init__(self) -> None:
        most = 1.0 if self.complement else float("inf")
        require_range("weight", self.weight, low=0.0, high=most, high_open=not self.complement)
        if self.final_weight is not None:
            require_range("final_weight", self.final_weight, low=0.0, high=most, high_open=not self.complement)
            require(self.decay_updates > 0, "decay_updates", self.decay_updates, "leaves final_weight without a meaning",
                    "set the updates over which the weight changes, or leave final_weight out")  # fmt: skip
        require_range("warmup_updates", self.warmup_updates, low=0)
        require_range("decay_updates", self.decay_updates, low=0)
        require(self.decay in ("cosine", "linear"), "decay", self.decay, "is no shape", "set cosine or linear")
        require_range("rows", self.rows, low=1)

    def weight_at(self, update: int) -> float:
        """``mu`` in update ``update`` of GRPO, counted from 0."""
        if update < self.warmup_updates:
            return self.weight * update / self.warmup_updates
        if self.final_weight is None:
            return self.weight
        done = min((update - self.warmup_updates) / self.decay_updates, 1.0)
        if self.decay == "cosine":
            done = (1.0 - math.cos(math.pi * done)) / 2.0
        return self.weight + (self.final_weight - self.weight) * done


def named_terms(terms: Sequence[AuxiliaryTerm]) -> dict[str, AuxiliaryTerm]:
    """Auxiliary terms by name.

    Raises:
        ConfigError: If two share a name, or the loss of GRPO would get a negative weight.
    """
    named: dict[str, AuxiliaryTerm] = {}
    for term in terms:
        name = term.name or term.loss.name
        require(name not in named, "model.auxiliary", name, "is the name of two losses",
                f"give each a name of its own: {{loss: {term.loss.name}, name: SOMETHING}}")  # fmt: skip
        named[name] = term
    largest = [max(term.weight, term.final_weight or 0.0) for term in terms if term.complement]
    require(sum(largest) <= 1.0, "model.auxiliary", sum(largest), "is the sum of the weights with complement, above 1",
            "lower them")  # fmt: skip
    return named


@dataclass(kw_only=True)
class EvaluationSet:
    """A data set to evaluate on.

    Args:
        source: Where its prompts come from.
        sampler: How completions are drawn.
        samples: Completions a prompt; accuracy is their mean, pass@k and majority@k need k of them.
        k: Values of k for pass@k and majority@k; by default the powers of two up to ``samples``.
        correct: Raw score of the first reward of the list from which on a completion counts as correct.
        limit: Evaluate on the first ``limit`` prompts only.
        batch_prompts: Prompts generated for at once.
    """

    component_field: ClassVar[str] = "source"

    source: PromptSource
    sampler: Sampler | str = "temperature"
    samples: int = 1
    k: list[int] | None = None
    correct: float = 1.0
    limit: int | None = None
    batch_prompts: int = 32

    def __post_init__(self) -> None:
        require_range("samples", self.samples, low=1)
        require_range("batch_prompts", self.batch_prompts, low=1)
        require_range("limit", self.limit if self.limit is not None else 1, low=1)
        if self.k is None:
            self.k = [2**power for power in range(self.samples.bit_length()) if 2**power <= self.samples]
        for k in self.k:
            require(1 <= k <= self.samples, "k", k, f"is not between 1 and samples ({self.samples})", "change either")


LongPromptPolicy = Literal["error", "drop", "truncate"]
