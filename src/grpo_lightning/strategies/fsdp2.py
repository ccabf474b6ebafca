"""The strategy ``fsdp2``: weights, gradients and optimizer sharded over all processes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import torch
from lightning.pytorch.strategies import ModelParallelStrategy
from torch.distributed.constants import default_pg_timeout
from typing_extensions import override


class FSDP2Strategy(ModelParallelStrategy):
    """Fully sharded data parallel (Zhao et al., arXiv 2304.11277), in the second form that torch has of it.

    Each of N processes holds 1/N of every weight, gradient and moment. A layer is whole only while it runs, and its gradients
    are averaged over the processes as they are made. Every process trains rows of its own.

    A checkpoint is one file, which any strategy and any number of processes can go on from.

    Args:
        process_group_backend: ``nccl`` or ``gloo``; by default what fits the device.
        timeout: How long a process waits for the others.
    """

    strategy_name: ClassVar[str] = "fsdp2"

    def __init__(
        self,
        process_group_backend: str | None = None,
        timeout: timedelta = default_pg_timeout,
    ) -> None:
        super().__init__("auto", 1, False, process_group_backend, timeout)

    @override
    def setup_environment(self) -> None:
        self._data_parallel_size = self.num_nodes * self.num_processes
        super().setup_environment()

    @override
    def optimizer_state(self, optimizer: Any) -> dict[str, Any]:
        """The whole state of an optimizer, on the first process; one that has none keeps none.

        torch would make it take a step to have one, and its next step would be the second.
        """
        plain = getattr(optimizer, "_optimizer", optimizer)
        return super().optimizer_state(optimizer) if plain.state else dict(plain.state_dict())

    @override
    def load_checkpoint(self, checkpoint_path: str | Path, weights_only: bool | None = None) -> dict[str, Any]:
        """Load weights and optimizers; one that had no state when it was saved is left as it is but for its settings.

        Lightning looks for the first entry of each optimizer's state, and plain gradient descent, or the start of GRPO after
        a warm-up, has none.
        """
        path = Path(self.broadcast(checkpoint_path))
        saved = _optimizer_states(path) if path.is_file() else []
        if not saved or any(each["state"] for each in saved):
            return super().load_checkpoint(path, weights_only)
        own, self.optimizers = self.optimizers, []
        try:
            return super().load_checkpoint(path, weights_only)
        finally:
            self.optimizers = own
            for optimizer, state in zip(own, saved, strict=True):
                for group, settings in zip(optimizer.param_groups, state["param_groups"], strict=True):
                    group.update({name: value for name, value in settings.items() if name != "params"})


def _optimizer_states(path: Path) -> list[dict[str, Any]]:
    return torch.load(path, map_location="cpu", mmap=True, weights_only=True)["optimizer_states"]  # type: ignore[no-any-return]
