"""Rows to model inputs: padded on the right, packed end to end, or flat with each prompt once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from grpo_lightning import profiling
from grpo_lightning.functional.attention_pieces import PromptRows
from grpo_lightning.functional.prompt_attention import prompt_attention
from grpo_lightning.policies.attention import attending
from grpo_lightning.types import Ragged, Rollouts


class ModelInputs(Protocol):
    """What goes into a model, and where in its output each trainable step is predicted."""

    def outputs(self, model: Any, read: Callable[[Any], Tensor]) -> Tensor:
        """[trainable steps, ...]: what ``read`` takes from the model's output, [rows, width, ...], at the position that
        predicts each step."""


@dataclass(frozen=True)
class Work:
    """Positions that a layout runs. Q counts its stretches of tokens, padding included."""

    lengths_Q: Tensor
    """[Q] int64: positions of each stretch."""
    past_Q: Tensor
    """[Q] int64: positions before it that it reads, run in another stretch."""
    padding: int = 0
    """Positions that hold no token."""
    duplicated: int = 0
    """Tokens of prompts that are run in another row, too."""

    def count(self, model: Any, *, recomputed: bool) -> None:
        """Tell a profile, if one is made, of one pass of ``model``, and whether the backward pass runs its layers again."""
        if profiling.active():
            profiling.count_body(
                model,
                self.lengths_Q,
                self.past_Q,
                padding=self.padding,
                duplicated=self.duplicated,
                recomputed=recomputed,
            )


@dataclass(frozen=True)
class Sequences:
    """Rows as the model reads them."""

    arguments: dict[str, Tensor]
    """Arguments of the model."""
    positions_S: Tensor
    """[trainable steps] int64: index into the flattened output positions."""
    work: Work

    def outputs(self, model: Any, read: Callable[[Any], Tensor]) -> Tensor:
        """See :class:`ModelInputs`."""
        return read(model(**self.arguments, use_cache=False)).flatten(0, 1)[self.positions_S]


@dataclass(frozen=True)
class FlatRows(Sequences):
    """Rows in one flat sequence, those of a prompt behind it; attention knows who follows whom."""

    parts: tuple[PromptRows, ...]
    """Prompts with their rows, in order."""

    def outputs(self, model: Any, read: Callable[[Any], Tensor]) -> Tensor:
        """See :class:`ModelInputs`."""
        with attending(model, self.attend):
            return Sequences.outputs(self, model, read)

    def attend(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, *, scale: float, window: int | None
    ) -> Tensor:
        """See :class:`~grpo_lightning.policies.attention.Attention`."""
        return prompt_attention(query, key, value, self.parts, scale=scale, window=window)


def read_steps(rows: Rollouts) -> Tensor:
    """[R] int64: steps of each row that the model must read: those before its last trainable one."""
    local_S = torch.arange(rows.row_S.shape[0]) - rows.actions.offsets[:-1][rows.row_S]
    last_R = torch.zeros(len(rows), dtype=torch.int64)
    trainable_S = rows.trainable_S
    return last_R.scatter_reduce(0, rows.row_S[trainable_S], local_S[trainable_S], "amax")


def sequences(rows: Rollouts) -> tuple[Ragged, Tensor]:
    """The tokens that each row's trainable steps depend on: its prompt and what comes before its last trainable step.

    Returns:
        The sequences, and for every trainable step the index of the token that predicts it among all their tokens.
    """
    prompt_R = rows.prompts.lengths()[rows.prompt_R]
    read_R = read_steps(rows)
    parts = []
    for row in range(len(rows)):
        parts += [rows.prompts[int(rows.prompt_R[row])], rows.actions[row][: int(read_R[row])]]
    lengths_R = prompt_R + read_R
    flat = Ragged(torch.cat(parts).to(torch.int64), torch.cat([lengths_R.new_zeros(1), lengths_R.cumsum(0)]))
    row_S = rows.row_S
    local_S = torch.arange(row_S.shape[0]) - rows.actions.offsets[:-1][row_S]
    predicts_S = flat.offsets[:-1][row_S] + prompt_R[row_S] + local_S - 1
    return flat, predicts_S[rows.trainable_S]


def padded(rows: Rollouts, device: torch.device) -> Sequences:
    """One sequence a row, padded on the right: causal attention never sees the padding, so no mask is needed."""
    flat, predicts_S = sequences(rows)
    lengths = flat.lengths()
    width = int(lengths.max())
    index = torch.arange(width)[None, :]
    inside = index < lengths[:, None]
    ids = torch.zeros(len(flat), width, dtype=torch.int64)
    ids[inside] = flat.values
    row = torch.searchsorted(flat.offsets, predicts_S, right=True) - 1
    positions = row * width + predicts_S - flat.offsets[row]
    duplicated, lengths_Q = _duplicated(rows), torch.full((len(flat),), width)
    work = Work(lengths_Q, lengths_Q * 0, ids.numel() - flat.values.shape[0], duplicated)
    return Sequences({"input_ids": ids.to(device)}, positions.to(device), work)


def packed(rows: Rollouts, device: torch.device) -> Sequences:
    """All sequences end to end in one; positions that start again at 0 keep them apart."""
    flat, predicts_S = sequences(rows)
    starts = torch.repeat_interleave(flat.offsets[:-1], flat.lengths())
    positions = torch.arange(flat.values.shape[0]) - starts
    arguments = {"input_ids": flat.values[None, :].to(device), "position_ids": positions[None, :].to(device)}
    work = Work(flat.lengths(), flat.lengths() * 0, duplicated=_duplicated(rows))
    return Sequences(arguments, predicts_S.to(device), work)


def _duplicated(rows: Rollouts) -> int:
    prompts_P = rows.prompts.lengths()
    return int(prompts_P[rows.prompt_R].sum() - prompts_P[torch.unique(rows.prompt_R)].sum())


def shared(rows: Rollouts, device: torch.device) -> FlatRows:
    """Each distinct prompt once, and behind it what its rows have written, end to end. Nothing is padded."""
    read_R, parts = read_steps(rows), list[PromptRows]()
    ids, positions = list[Tensor](), list[Tensor]()
    begins_R, prompt_ends_R = torch.zeros(len(rows), dtype=torch.int64), torch.zeros(len(rows), dtype=torch.int64)
    for prompt in torch.unique(rows.prompt_R).tolist():
        members = (rows.prompt_R == prompt).nonzero().squeeze(1)
        tokens, read = rows.prompts[prompt], read_R[members].tolist()
        at = parts[-1].end if parts else 0
        length, follow = tokens.shape[0], tuple(steps for steps in read if steps)
        prompt_ends_R[members] = at + length - 1
        begins_R[members] = at + length + torch.tensor([0, *read]).cumsum(0)[:-1]
        ids += [tokens, *(rows.actions[row][:steps] for row, steps in zip(members.tolist(), read, strict=True))]
        positions += [torch.arange(length), *(torch.arange(length, length + steps) for steps in follow)]
        # What only one row follows needs no merging: it is one sequence.
        parts.append(PromptRows(at, length + follow[0], ()) if len(follow) == 1 else PromptRows(at, length, follow))
    row_S = rows.row_S
    local_S = torch.arange(row_S.shape[0]) - rows.actions.offsets[:-1][row_S]
    predicts_S = torch.where(local_S == 0, prompt_ends_R[row_S], begins_R[row_S] + local_S - 1)
    arguments = {
        "input_ids": torch.cat(ids).to(torch.int64)[None, :].to(device),
        "position_ids": torch.cat(positions)[None, :].to(device),
    }
    work = Work(
        torch.tensor([length for part in parts for length in (part.prompt, *part.rows)]),
        torch.tensor([past for part in parts for past in (0, *(part.prompt for _ in part.rows))]),
    )
    return FlatRows(arguments, predicts_S[rows.trainable_S].to(device), work, tuple(parts))


LAYOUTS: Mapping[str, Callable[[Rollouts, torch.device], Sequences]] = {
    "padded": padded,
    "packed": packed,
    "shared": shared,
}
"""The layouts by name."""
