"""Activation checkpointing that knows of shared prompts: layers that are run again attend as they did."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from grpo_lightning.errors import ConfigError
from grpo_lightning.functional.linear import faster_linears
from grpo_lightning.policies.attention import installed
from grpo_lightning.policies.decoder_layers import layers


class CheckpointedForward:
    """A layer's forward that keeps its inputs and runs again in the backward pass.

    Args:
        forward: The layer's own.
    """

    def __init__(self, forward: Callable[..., Any]) -> None:
        self.forward = forward

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """The layer's output."""
        if not torch.is_grad_enabled():
            return self.forward(*arguments, **named)
        # The backward pass comes after the attention of this pass has been put away.
        attention = installed()

        def run(*arguments: Any, **named: Any) -> Any:
            with faster_linears(), nullcontext() if attention is None else attention.active():
                return self.forward(*arguments, **named)

        # Nothing in a layer is drawn, so no random state needs to be kept.
        return checkpoint(run, *arguments, use_reentrant=False, preserve_rng_state=False, **named)


def checkpoint_layers(model: Any) -> None:
    """Let every layer of ``model`` keep only its inputs.

    Raises:
        ConfigError: If the model does not say which of its parts are layers.
    """
    found = layers(model)
    if not found:
        raise ConfigError("activation_checkpointing", True, f"does not know the layers of {type(model).__name__}",
                          "leave it out")  # fmt: skip
    for layer in found:
        layer.forward = CheckpointedForward(layer.forward)
