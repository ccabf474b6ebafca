"""Rows to model inputs: padded on the right, or packed end to end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from grpo_lightning.types import Ragged, Rollouts


@dataclass(frozen=True)
class ModelInputs:
    """What goes into the model, and where in its output each trainable step is predicted."""

    arguments: dict[str, Tensor]
    """Arguments of the model."""
    positions_S: Tensor
    """[trainable steps] int64: index into the flattened output positions."""


def sequences(rows: Rollouts) -> tuple[Ragged, Tensor]:
    """The token sequence of each row, less its last token, which predicts nothing.

    Returns:
        The sequences, and for every trainable step the index of the token that predicts it among all their tokens.
    """
    prompt_R = rows.prompts.lengths()[rows.prompt_R]
    actions_R = rows.actions.lengths()
    parts = []
    for row in range(len(rows)):
        parts += [rows.prompts[int(rows.prompt_R[row])], rows.actions[row][:-1]]
    lengths_R = prompt_R + (actions_R - 1).clamp(min=0)
    flat = Ragged(torch.cat(parts).to(torch.int64), torch.cat([lengths_R.new_zeros(1), lengths_R.cumsum(0)]))
    row_S = rows.row_S
    local_S = torch.arange(row_S.shape[0]) - rows.actions.offsets[:-1][row_S]
    predicts_S = flat.offsets[:-1][row_S] + prompt_R[row_S] + local_S - 1
    return flat, predicts_S[rows.trainable_S]


def padded(flat: Ragged, predicts_S: Tensor, device: torch.device) -> ModelInputs:
    """One sequence a row, padded on the right: causal attention never sees the padding, so no mask is needed."""
    lengths = flat.lengths()
    width = int(lengths.max())
    index = torch.arange(width)[None, :]
    inside = index < lengths[:, None]
    ids = torch.zeros(len(flat), width, dtype=torch.int64)
    ids[inside] = flat.values
    row = torch.searchsorted(flat.offsets, predicts_S, right=True) - 1
    positions = row * width + predicts_S - flat.offsets[row]
    return ModelInputs({"input_ids": ids.to(device)}, positions.to(device))


def packed(flat: Ragged, predicts_S: Tensor, device: torch.device) -> ModelInputs:
    """All sequences end to end in one; positions that start again at 0 keep them apart."""
    starts = torch.repeat_interleave(flat.offsets[:-1], flat.lengths())
    positions = torch.arange(flat.values.shape[0]) - starts
    arguments = {"input_ids": flat.values[None, :].to(device), "position_ids": positions[None, :].to(device)}
    return ModelInputs(arguments, predicts_S.to(device))


def layouts() -> dict[str, Any]:
    """The layouts by name."""
    return {"padded": padded, "packed": packed}
