"""Low-rank adapters (LoRA; Hu et al., arXiv 2106.09685) through peft."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from grpo_lightning.errors import ConfigError, require, require_range


@dataclass(kw_only=True)
class LoRA:
    """Train low-rank adapters and leave the weights as they are; the reference is the adapter switched off.

    Args:
        rank: Rank of the adapters.
        alpha: Their scale is ``alpha / rank``.
        targets: Names of the linear layers that get one, or ``all-linear``.
    """

    rank: int = 16
    alpha: float = 32.0
    targets: list[str] | str = field(default_factory=lambda: "all-linear")

    def __post_init__(self) -> None:
        require_range("rank", self.rank, low=1)
        require_range("alpha", self.alpha, low=0, low_open=True)
        require(bool(self.targets), "targets", self.targets, "is empty", "name layers, or 'all-linear'")

    def apply(self, model: Any) -> Any:
        """``model`` with adapters, of which nothing else trains."""
        from peft import LoraConfig, get_peft_model

        config = LoraConfig(
            r=self.rank,
            lora_alpha=self.alpha,
            target_modules=self.targets,
            lora_dropout=0.0,
            task_type="CAUSAL_LM",
        )
        try:
            adapted = get_peft_model(model, config)
        except ValueError as error:
            raise ConfigError("lora.targets", self.targets, f"does not fit the model ({error})",
                              "name linear layers of the model, or set all-linear") from error  # fmt: skip
        for name, layer in _adapted_layers(adapted):
            if any(layer.get_base_layer().weight is other for other in _tied(model)):
                raise ConfigError("lora.targets", name, "shares its weights with another layer, and cannot move alone",
                                  "leave it out")  # fmt: skip
        return adapted


def _adapted_layers(model: Any) -> list[tuple[str, Any]]:
    from peft.tuners.lora import LoraLayer

    return [(name, module) for name, module in model.named_modules() if isinstance(module, LoraLayer)]


def _tied(model: Any) -> list[torch.Tensor]:
    """Weights that the model's embedding and head share."""
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    return [head.weight] if head is not None and head.weight is embedding.weight else []


@torch.no_grad()
def merge_and_reset(model: Any) -> None:
    """Add every adapter to the weights below it and let it start from zero: the function stays, the reference moves.

    Only the factor that adapters begin with as zero is reset. The other one stays, so that nothing is drawn.
    """
    for _, layer in _adapted_layers(model):
        for adapter in layer.active_adapters:
            weight = layer.get_base_layer().weight
            weight += layer.get_delta_weight(adapter).to(weight)
            if adapter in layer.lora_B:
                layer.lora_B[adapter].weight.zero_()
            if adapter in layer.lora_embedding_A:
                layer.lora_embedding_A[adapter].zero_()
