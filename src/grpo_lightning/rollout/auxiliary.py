"""Auxiliary losses as a run trains them: rows of data dealt to updates, before GRPO or beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from grpo_lightning.auxiliary.base import AuxiliaryLoss
from grpo_lightning.functional.packing import worst_case_bins
from grpo_lightning.functional.seeding import addressed_permutation
from grpo_lightning.policies.base import Policy
from grpo_lightning.rollout import world
from grpo_lightning.rollout.micro_batches import micro_batches
from grpo_lightning.rollout.statistics import UpdateStatistics
from grpo_lightning.settings import AuxiliaryTerm
from grpo_lightning.types import Prompt, Rollouts


class Prompts(Protocol):
    """A data set."""

    def __len__(self) -> int: ...

    def prompt(self, index: int) -> Prompt:
        """The prompt of a row."""


@dataclass(frozen=True)
class AuxiliaryRows:
    """Where the rows of an auxiliary loss come from."""

    prompt: Callable[[int], Prompt]
    """Row of data at an index."""
    size: int
    """Rows of data there are."""
    rows: int
    """Rows an update, over all ranks."""
    seed: int
    stream: str
    """Name of the order in which rows are drawn: ``warmup``, or ``auxiliary/NAME``."""

    @classmethod
    def of(cls, sets: Sequence[Prompts], rows: int, seed: int, stream: str) -> AuxiliaryRows:
        """The rows of some data sets, one set after the other."""
        data = [(prompts, index) for prompts in sets for index in range(len(prompts))]

        def prompt(index: int) -> Prompt:
            prompts, row = data[index]
            return prompts.prompt(row)

        return cls(prompt, len(data), rows, seed, stream)


@dataclass(frozen=True)
class AuxiliaryBatch:
    """The rows of one update on this rank."""

    rollouts: Rollouts
    micro_batches: list[Tensor]
    normaliser: float
    """Over all ranks."""


class AuxiliaryStream:
    """An auxiliary loss and its rows, update by update.

    Args:
        loss: The loss.
        policy: What is trained.
        source: Where its rows come from.
        budget: Tokens of a micro-batch.
        row_tokens: Tokens that a row can have at most.
    """

    def __init__(
        self, loss: AuxiliaryLoss, policy: Policy, source: AuxiliaryRows, *, budget: int, row_tokens: int
    ) -> None:
        self.loss, self.policy, self.source, self.budget = loss, policy, source, budget
        self.micro_batches = worst_case_bins(-(-source.rows // world.world_size()), row_tokens, budget)
        """Micro-batches that an update may need on a rank."""
        self._batch: AuxiliaryBatch | None = None

    def open(self, update: int) -> AuxiliaryBatch:
        """Make the rows of an update; a collective."""
        source = self.source
        indices = drawn_indices(update, source.rows, source.size, source.seed, source.stream)
        own = [indices[i] for i in world.block(len(indices))]
        rollouts = self.loss.rows(self.policy, [source.prompt(index) for index in own])
        rows, shared = range(len(rollouts)), self.policy.shares_prompts
        parts = micro_batches(rollouts, rows, self.budget, shared=shared, most=self.micro_batches)
        normaliser = sum(world.gather(self.loss.normaliser(rollouts)))
        self._batch = AuxiliaryBatch(rollouts, parts, normaliser)
        return self._batch

    def rows_of(self, index: int) -> Rollouts | None:
        """Rows of micro-batch ``index``; ``None`` where the update needs fewer."""
        batch = self._batch
        if batch is None or index >= len(batch.micro_batches):
            return None
        return batch.rollouts.select(batch.micro_batches[index])

    def value(self, rows: Rollouts) -> Tensor:
        """Their part of the loss, normalised over the update's rows on all ranks, with gradient."""
        assert self._batch is not None
        log_probs_S = self.policy(rows)["log_prob"]
        return self.loss.terms(log_probs_S).sum() / self._batch.normaliser

    def warmup_loss(self, index: int, statistics: UpdateStatistics) -> Tensor | None:
        """The loss of micro-batch ``index`` where it is all that trains; ``None`` where the update needs fewer."""
        if (rows := self.rows_of(index)) is None:
            return None
        loss = self.value(rows)
        statistics.count(len(rows), int(rows.trainable_S.sum()))
        statistics.total("warmup/loss", loss)
        return loss


class AuxiliaryStreams:
    """The auxiliary losses beside GRPO, one after the other in the micro-batches that follow GRPO's.

    Args:
        terms: What they weigh, by name.
        streams: The losses and their rows, by the same names.
    """

    def __init__(self, terms: Mapping[str, AuxiliaryTerm], streams: Mapping[str, AuxiliaryStream]) -> None:
        self.terms, self.streams = dict(terms), dict(streams)
        self.micro_batches = sum(stream.micro_batches for stream in streams.values())
        """Micro-batches that an update may need on a rank."""
        self._update = 0

    def open(self, update: int) -> None:
        """Make the rows of an update, counted from the first of GRPO; a collective."""
        self._update = update
        for name, stream in self.streams.items():
            if self.terms[name].weight_at(update) > 0:
                stream.open(update)

    @property
    def left_for_grpo(self) -> float:
        """What the loss of GRPO is multiplied by in this update."""
        taken = [term.weight_at(self._update) for term in self.terms.values() if term.complement]
        return 1.0 - sum(taken)

    def loss(self, index: int, statistics: UpdateStatistics) -> Tensor | None:
        """The weighted loss of micro-batch ``index`` of those beside GRPO; ``None`` where an update needs fewer."""
        found = self._rows_of(index)
        if found is None:
            return None
        name, rows = found
        value = self.streams[name].value(rows)
        statistics.total(f"auxiliary/{name}/loss", value)
        loss = self.terms[name].weight_at(self._update) * value
        statistics.total("train/loss", loss)
        return loss

    def has_rows(self, index: int) -> bool:
        """Whether micro-batch ``index`` of those beside GRPO has rows on this rank."""
        return self._rows_of(index) is not None

    def _rows_of(self, index: int) -> tuple[str, Rollouts] | None:
        for name, stream in self.streams.items():
            if index < stream.micro_batches:
                rows = stream.rows_of(index) if self.terms[name].weight_at(self._update) > 0 else None
                return None if rows is None else (name, rows)
            index -= stream.micro_batches
        return None

    def metrics(self) -> dict[str, float]:
        """Weights of this update, by the keys of ``docs/metrics.md``."""
        return {f"auxiliary/{name}/weight": term.weight_at(self._update) for name, term in self.terms.items()}


def drawn_indices(update: int, rows: int, size: int, seed: int, stream: str) -> list[int]:
    """Rows of data of an update: a fresh permutation each pass, a function of the update alone.

    Args:
        update: Index of the update.
        rows: Rows an update.
        size: Rows of data.
        seed: Seed of the run.
        stream: Name of the order.
    """
    passes: dict[int, Tensor] = {}
    indices = []
    for position in range(update * rows, (update + 1) * rows):
        number, offset = divmod(position, size)
        if number not in passes:
            passes[number] = addressed_permutation(seed, stream, (number,), size)
        indices.append(int(passes[number][offset]))
    return indices
