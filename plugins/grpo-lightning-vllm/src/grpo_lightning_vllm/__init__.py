"""Lets vLLM take the weights of a grpo-lightning run from files."""

from __future__ import annotations

import contextlib

BACKEND = "grpo_lightning_files"
"""What ``--weight-transfer-config`` calls it."""


def register() -> None:
    """Make the transport known to vLLM, which calls this in each of its processes, possibly more than once."""
    from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory

    with contextlib.suppress(ValueError):  # it is known already
        WeightTransferEngineFactory.register_engine(BACKEND, "grpo_lightning_vllm.files", "FileWeightTransferEngine")
