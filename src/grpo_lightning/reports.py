"""What a training step tells callbacks: the values of ``outputs["rollout"]`` and ``outputs["update"]``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from grpo_lightning.types import RolloutTable


@dataclass(frozen=True)
class Sample:
    """One row, as shown to a person."""

    group: int
    member: int
    prompt: str
    turns: Sequence[str]
    """What the policy wrote, turn by turn, with the environment's answers in between."""
    components: Mapping[str, float | None]
    """Raw scores by reward name; ``None`` where it abstained or did not apply."""
    reward: float | None
    """Composed reward; ``None`` where the row abstains."""
    advantage: float
    length: int
    finish: str
    """``stop`` or ``length``."""


@dataclass(frozen=True)
class RolloutReport:
    """A rollout that has just been sampled, scored and selected. Tensors cover the rows of all ranks."""

    rollout: int
    """Index of the rollout, from 0."""
    update: int
    """Optimizer steps taken before it."""
    table: RolloutTable
    """Every row of the last round of drawing, those that do not train included."""
    advantages_R: Tensor
    """[R] float64: final advantages (for step-level advantages the one of largest magnitude)."""
    keep_R: Tensor
    """[R] bool: rows that the selector kept."""
    run_R: Tensor
    """[R] bool: kept rows that go through the policy; the others have advantage 0 and no term needs them."""
    compares: bool
    """Whether the estimator compares inside groups, so that equal rewards mean no signal."""
    groups_redrawn: int
    """Groups drawn again by the selector, summed over rounds."""
    prompt_steps: int
    """Steps of the prompts, each counted once a group, all ranks."""
    sampled_steps: int
    """Steps that the policy wrote in all rounds, all ranks."""
    seconds: Mapping[str, float]
    """Wall time by phase on this rank: ``generate``, ``reward``, ``score`` (passes without gradient), ``collect`` (all
    of it, until rows are dealt into updates)."""
    samples: Sequence[Sample] = ()
    """Rows of a few groups of this rank."""
    staleness: int = 0
    """Updates between the weights that sampled a row and those of now, the largest of all rows, all ranks."""
    kl_R: Tensor | None = None
    """[R] float64: KL that each row paid from its reward, before its weight; ``None`` unless the KL is in the reward."""
    reward_counts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What the calls of each reward came to, all rounds and ranks, by the keys of ``docs/metrics.md`` below its name."""

    @property
    def reward_failures(self) -> dict[str, int]:
        """Rows by reward name whose score failed and was replaced by the declared policy."""
        return {name: int(counts.get("failures", 0)) for name, counts in self.reward_counts.items()}


@dataclass
class UpdateReport:
    """One optimizer step, complete when ``on_train_batch_end`` sees it."""

    stage: str
    """``warmup`` or ``grpo``."""
    update: int
    """Optimizer steps taken, this one included."""
    rollout: int
    """Index of the rollout trained on; -1 in the warm-up."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Reduced over micro-batches and ranks, by the keys of ``docs/metrics.md``."""


@dataclass(frozen=True)
class EvaluationReport:
    """One data set, evaluated: what ``validate`` and ``test`` show."""

    dataset: str
    prompts: int
    samples: int
    """Completions a prompt."""
    metrics: Mapping[str, float]
    """By the keys of ``docs/metrics.md``, without the data set's name."""
    rows: Sequence[Sample] = ()
    """A few rows."""
