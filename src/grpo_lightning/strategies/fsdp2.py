"""The strategy ``fsdp2``: weights, gradients and optimizer sharded over all processes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.strategies import ModelParallelStrategy
from torch.distributed.constants import default_pg_timeout
from typing_extensions import override

from grpo_lightning.errors import GRPOError
from grpo_lightning.strategies import sharded_folder
from grpo_lightning.strategies.checkpoint_files import not_saved
from grpo_lightning.strategies.lockstep import Lockstep
from grpo_lightning.strategies.sharded_state import (
    gathered_module_state,
    gathered_optimizer_state,
    load_module_state,
    load_optimizer_state,
)
from grpo_lightning.strategies.sharding import is_sharded


class FSDP2Strategy(ModelParallelStrategy):
    """Fully sharded data parallel (Zhao et al., arXiv 2304.11277), in the second form that torch has of it.

    Each of N processes holds 1/N of every weight, gradient and moment. A layer is whole only while it runs, and its gradients
    are averaged over the processes as they are made. Every process trains rows of its own.

    Any strategy and any number of processes goes on from a checkpoint of this one, and this one from any checkpoint.

    Args:
        sharded_checkpoints: Every process writes its part of a checkpoint, and the checkpoint is a folder. By default the
            first process gathers all parts, one tensor after the other, and writes one file.
        unshard_for_rollout: Every process has all weights while it samples, scores and looks at a whole update, so that it
            needs no other process then. Otherwise layers are gathered in every step, for models that one process cannot hold.
        process_group_backend: ``nccl`` or ``gloo``; by default what fits the device.
        timeout: How long a process waits for the others.
    """

    strategy_name: ClassVar[str] = "fsdp2"

    def __init__(
        self,
        sharded_checkpoints: bool = False,
        unshard_for_rollout: bool = True,
        process_group_backend: str | None = None,
        timeout: timedelta = default_pg_timeout,
    ) -> None:
        super().__init__("auto", 1, sharded_checkpoints, process_group_backend, timeout)
        self.sharded_checkpoints, self.unshard_for_rollout = sharded_checkpoints, unshard_for_rollout

    @override
    def setup_environment(self) -> None:
        self._data_parallel_size = self.num_nodes * self.num_processes
        super().setup_environment()

    @override
    def setup(self, trainer: Trainer) -> None:
        super().setup(trainer)
        module: Any = self.lightning_module
        if not self.unshard_for_rollout and is_sharded(module.policy):
            module.policy.passes = Lockstep(module.policy)

    @override
    def lightning_module_state_dict(self) -> dict[str, Any]:
        assert self.lightning_module is not None
        return {} if self.sharded_checkpoints else gathered_module_state(self.lightning_module)

    @override
    def optimizer_state(self, optimizer: Any) -> dict[str, Any]:
        plain = getattr(optimizer, "_optimizer", optimizer)
        if self.sharded_checkpoints:
            return {"param_groups": plain.state_dict()["param_groups"]}
        return gathered_optimizer_state(plain)

    @override
    def save_checkpoint(self, checkpoint: dict[str, Any], filepath: Any, storage_options: Any = None) -> None:
        path = Path(self.broadcast(filepath))
        if not self.sharded_checkpoints:
            super(ModelParallelStrategy, self).save_checkpoint(checkpoint, path, storage_options)
            return
        assert self.lightning_module is not None
        plain = [getattr(each, "_optimizer", each) for each in self.optimizers]
        checkpoint.pop("state_dict", None)
        try:
            sharded_folder.write(checkpoint, self.lightning_module, plain, path)
        except Exception as error:  # on all processes: they write together
            if self.is_global_zero:
                raise not_saved(path, error) from error
            raise GRPOError(f"the checkpoint {path} cannot be written ({error})") from error

    @override
    def load_checkpoint(self, checkpoint_path: str | Path, weights_only: bool | None = None) -> dict[str, Any]:
        """Let each process read its part, of a file or of a folder."""
        path, module = Path(self.broadcast(checkpoint_path)), self.lightning_module
        assert module is not None
        if path.is_dir():
            return sharded_folder.read_into(path, module, self.optimizers)
        checkpoint: dict[str, Any] = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
        load_module_state(module, checkpoint.pop("state_dict"), strict=module.strict_loading)
        for optimizer, state in zip(self.optimizers, checkpoint["optimizer_states"], strict=False):
            load_optimizer_state(optimizer, state)
        return checkpoint
