"""Rows that are decoded together with the model's own attention and cache, for models that allow nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from grpo_lightning.engines.admission import Admitted
from grpo_lightning.functional.linear import faster_linears
from grpo_lightning.types import Ragged


class PlainBatch:
    """Rows in flight: contexts are padded on the left and run once, their cache is repeated for the rows that share them.

    Args:
        model: A causal language model of transformers.
        contexts: What rows continue.
        device: Where the model is.
    """

    joins = False
    """Rows come in together."""

    def __init__(self, model: Any, contexts: Ragged, device: torch.device) -> None:
        self._model, self._contexts, self._device = model, contexts, device
        self._cache: Any = None
        self._mask_QL = self._position_Q = torch.zeros(0)

    def advance(self, tokens: Sequence[int], admitted: Sequence[Admitted]) -> Tensor:
        """[rows, V] logits of the next token, after one token of each row, or of the rows that come in."""
        if admitted:
            return self._prefill(admitted)
        self._mask_QL = torch.cat([self._mask_QL, self._mask_QL.new_ones(len(tokens), 1)], dim=1)
        output = self._run(
            input_ids=torch.tensor(tokens, device=self._device)[:, None],
            attention_mask=self._mask_QL,
            position_ids=self._position_Q[:, None],
            use_cache=True,
            **{_cache_name(self._model): self._cache},
        )
        self._position_Q = self._position_Q + 1
        return output.logits[:, -1]  # type: ignore[no-any-return]

    def keep(self, alive: Sequence[bool]) -> list[int]:
        """Let go of the rows that have ended; returns the rows left, by their old places."""
        order = [place for place, going in enumerate(alive) if going]
        if len(order) < len(alive):
            index = torch.tensor(order, dtype=torch.int64, device=self._device)
            self._cache.reorder_cache(index)
            self._mask_QL, self._position_Q = self._mask_QL[index], self._position_Q[index]
        return order

    def settle(self, room: int) -> None:
        """Nothing: all rows that share a batch come in together."""

    def rest(self) -> None:
        """Nothing: the model attends by itself."""

    def _run(self, **arguments: Any) -> Any:
        with faster_linears():
            return self._model(**arguments)

    def _prefill(self, admitted: Sequence[Admitted]) -> Tensor:
        index = torch.tensor([each.context for each in admitted])
        ids, mask = (each.to(self._device) for each in pad_left(self._contexts.select(index)))
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        output = self._run(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True, logits_to_keep=1)
        self._cache = getattr(output, _cache_name(self._model))
        counts = torch.tensor([len(each.rows) for each in admitted])
        context_Q = torch.repeat_interleave(counts).to(self._device)
        self._cache.reorder_cache(context_Q)
        self._mask_QL, self._position_Q = mask[context_Q], positions[context_Q, -1] + 1
        return output.logits[:, -1][context_Q]  # type: ignore[no-any-return]


def _cache_name(model: Any) -> str:
    """Name of the cache, as an argument and in the output: transformers 5 renamed it on the way."""
    return "cache" if "cache" in signature(model.forward).parameters else "past_key_values"


def pad_left(contexts: Ragged) -> tuple[Tensor, Tensor]:
    """[C, L] ids and mask, int64: contexts that end together."""
    lengths = contexts.lengths()
    width = int(lengths.max())
    mask = torch.arange(width)[None, :] >= width - lengths[:, None]
    ids = torch.zeros(len(contexts), width, dtype=torch.int64)
    ids[mask] = contexts.values.to(torch.int64)
    return ids, mask.to(torch.int64)
