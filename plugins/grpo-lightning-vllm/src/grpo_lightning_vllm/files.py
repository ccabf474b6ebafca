"""A weight transport of vLLM that reads a file of safetensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from safetensors import safe_open
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload


@dataclass
class FileInitInfo(WeightTransferInitInfo):  # type: ignore[misc]
    """Nothing is agreed on beforehand."""


@dataclass
class FileUpdateInfo(WeightTransferUpdateInfo):  # type: ignore[misc]
    """Where the weights are."""

    path: str
    """File of safetensors, its tensors named as in the model's checkpoint; the server must be able to read it."""


class FileWeightTransferEngine(WeightTransferEngine[FileInitInfo, FileUpdateInfo]):  # type: ignore[misc]
    """Loads new weights as a checkpoint is loaded, layer by layer: what vLLM makes of weights when it loads a model, such as
    packing them for its kernels, is made of the new ones too."""

    init_info_cls = FileInitInfo
    update_info_cls = FileUpdateInfo

    def init_transfer_engine(self, init_info: FileInitInfo) -> None:
        """There is nothing to open."""

    def start_weight_update(self) -> None:
        initialize_layerwise_reload(self.model)

    def update_weights(self, update_info: dict[str, Any]) -> None:
        self.receive_weights(self.parse_update_info(update_info))
        if self.device.type != "cpu":
            torch.accelerator.synchronize()

    def receive_weights(self, update_info: FileUpdateInfo) -> None:
        self.model.load_weights(_tensors(update_info.path, self.device))

    def finish_weight_update(self) -> None:
        finalize_layerwise_reload(self.model, self.model_config)

    def shutdown(self) -> None:
        """There is nothing to close."""


def _tensors(path: str, device: torch.device) -> Iterator[tuple[str, torch.Tensor]]:
    with safe_open(path, framework="pt", device="cpu") as file:
        for name in file.keys():  # noqa: SIM118 it is no dict
            yield name, file.get_tensor(name).to(device)
