"""What is wrong with rows that were made to be trained on."""

from __future__ import annotations

from dataclasses import fields

import torch
from torch import Tensor

from grpo_lightning.policies.base import Policy
from grpo_lightning.types import Ragged, Rollouts

_DTYPES = {"trainable_S": torch.bool, "temperature_R": torch.float32, "behaviour_log_probs_S": torch.float32}


def row_faults(rows: Rollouts, policy: Policy) -> list[str]:
    """What is wrong with ``rows``, in words: shapes and types, indices, lengths; empty if nothing is."""
    if not isinstance(rows, Rollouts):
        return [f"it is a {type(rows).__name__} and no Rollouts"]
    faults = _shape_faults(rows)
    return faults or _content_faults(rows, policy)


def _shape_faults(rows: Rollouts) -> list[str]:
    faults, count, steps = [], len(rows.actions), rows.actions.values.shape[0]
    for name in ("prompts", "actions"):
        ragged = getattr(rows, name)
        if not isinstance(ragged, Ragged) or int(ragged.offsets[-1]) != ragged.values.shape[0]:
            faults.append(f"{name} is no Ragged whose offsets end where its values do")
    for item in fields(rows):
        value, length = getattr(rows, item.name), count if item.name.endswith("_R") else steps
        if not item.name.endswith(("_R", "_S")):
            continue
        wanted = _DTYPES.get(item.name, torch.int64)
        if not isinstance(value, Tensor) or tuple(value.shape) != (length,) or value.dtype != wanted:
            shape = tuple(value.shape) if isinstance(value, Tensor) else None
            dtype = value.dtype if isinstance(value, Tensor) else type(value).__name__
            faults.append(f"{item.name} is {shape} of {dtype} and not ({length},) of {wanted}")
    if rows.support is not None and len(rows.support) != steps:
        faults.append(f"support has {len(rows.support)} entries for {steps} steps")
    return faults


def _content_faults(rows: Rollouts, policy: Policy) -> list[str]:
    faults, prompts = [], len(rows.prompts)
    if len(rows) == 0:
        return ["there are none"]
    if bool(((rows.prompt_R < 0) | (rows.prompt_R >= prompts)).any()):
        return [f"prompt_R points beyond the {prompts} prompts"]
    lengths_R = rows.prompts.lengths()[rows.prompt_R] + rows.actions.lengths()
    if int(rows.prompts.lengths().min()) == 0:
        faults.append("a prompt is empty")
    if int(rows.lengths_R.min()) == 0:
        faults.append(f"row {int(rows.lengths_R.argmin())} has no trainable step")
    if int(lengths_R.max()) > policy.context_length:
        faults.append(f"row {int(lengths_R.argmax())} has {int(lengths_R.max())} steps, the context "
                      f"{policy.context_length}")  # fmt: skip
    if bool((~torch.isfinite(rows.temperature_R) | (rows.temperature_R <= 0)).any()):
        faults.append("a temperature is not positive")
    if bool((rows.behaviour_log_probs_S > 0).any()) or bool(torch.isnan(rows.behaviour_log_probs_S).any()):
        faults.append("a behaviour log-probability is above 0 or no number")
    return faults
