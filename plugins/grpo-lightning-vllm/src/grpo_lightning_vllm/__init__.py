"""Lets vLLM take the weights of a grpo-lightning run from files."""

from __future__ import annotations

import contextlib
import os

BACKEND = "grpo_lightning_files"
"""What ``--weight-transfer-config`` calls it."""
OWNED = "GRPO_LIGHTNING_OWNED_SERVER"
"""Set by a run for the servers that it starts: they end with it, however it ends."""


def register() -> None:
    """Make the transport known to vLLM, which calls this in each of its processes, possibly more than once."""
    from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory

    from grpo_lightning_vllm.parent import end_with_parent

    with contextlib.suppress(ValueError):  # it is known already
        WeightTransferEngineFactory.register_engine(BACKEND, "grpo_lightning_vllm.files", "FileWeightTransferEngine")
    if os.environ.get(OWNED):
        end_with_parent()
