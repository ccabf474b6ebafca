"""Recorded completions: what a run generated, by address, to be replayed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import torch

from grpo_lightning.engines.base import Completions, GenerationRequest

FORMAT = 1


def write_recording(folder: Path, request: GenerationRequest, completions: Completions, version: int) -> Path:
    """Write one answered request to a file of tensors in ``folder``, named by its stream, first address and version."""
    folder.mkdir(parents=True, exist_ok=True)
    support = completions.support
    state: dict[str, Any] = {
        "format": FORMAT,
        "stream": request.stream,
        "address_QA": request.address_QA,
        "tokens": completions.tokens.values,
        "log_probs": completions.log_probs.values,
        "offsets": completions.tokens.offsets,
        "finish_Q": completions.finish_Q,
        "support": None if support is None else {"values": support.values, "offsets": support.offsets},
        "asked_at": request.version,
        "version": version if completions.version is None else completions.version,
    }
    rollout, group, attempt, _, turn = request.key(0)
    stream = quote(request.stream, safe="")
    path = folder / f"{stream}-{rollout:06d}-{group:06d}-{attempt}-{turn}-{request.version}.pt"
    torch.save(state, path)
    return path


def read_recording(path: Path) -> Iterator[tuple[tuple[str, tuple[int, ...]], dict[str, Any]]]:
    """Rows of one file: ((stream, address), row)."""
    state = torch.load(path, weights_only=True)
    offsets = state["offsets"].tolist()
    for row, address in enumerate(state["address_QA"].tolist()):
        steps = slice(offsets[row], offsets[row + 1])
        support = state["support"]
        yield (
            (state["stream"], tuple(address)),
            {
                "tokens": state["tokens"][steps],
                "log_probs": state["log_probs"][steps],
                "finish": int(state["finish_Q"][row]),
                "asked_at": state["asked_at"],
                "version": state["version"],
                "support": None if support is None else support["values"],
                "support_offsets": None if support is None else support["offsets"][offsets[row] : offsets[row + 1] + 1],
            },
        )
