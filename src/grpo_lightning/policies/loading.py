"""Loading a causal language model's parts from an address, and writing them in Hugging Face format."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from grpo_lightning.errors import ConfigError
from grpo_lightning.policies.addresses import ModelAddress
from grpo_lightning.policies.dropout import disable_in_config
from grpo_lightning.policies.embedded import character_tokenizer, tiny_llama_config

if TYPE_CHECKING:
    from grpo_lightning.policies.causal_lm import CausalLM

log = logging.getLogger(__name__)


def _from_pretrained(loader: Any, address: ModelAddress, hub: Mapping[str, Any], **more: Any) -> Any:
    try:
        return loader.from_pretrained(address.source, **address.arguments(), **hub, **more)
    except (OSError, ValueError, KeyError) as error:
        cause = str(error).partition("\n")[0]
        raise ConfigError("model", address.text, f"does not load ({type(error).__name__}: {cause})",
                          "check the address, the network and the cache") from error  # fmt: skip


def load_tokenizer(address: ModelAddress, hub: Mapping[str, Any]) -> Any:
    """The model's tokenizer, with a pad token."""
    if address.embedded:
        return character_tokenizer()
    from transformers import AutoTokenizer

    tokenizer = _from_pretrained(AutoTokenizer, address, hub)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_config(address: ModelAddress, tokenizer: Any, hub: Mapping[str, Any]) -> Any:
    """The model's configuration."""
    if address.embedded:
        return tiny_llama_config(len(tokenizer))
    from transformers import AutoConfig

    return _from_pretrained(AutoConfig, address, hub)


def load_generation_config(address: ModelAddress, config: Any, hub: Mapping[str, Any]) -> Any:
    """The model's generation configuration; one made from its configuration where it has none."""
    from transformers import GenerationConfig

    if not address.embedded and not address.gguf_file:
        try:
            return GenerationConfig.from_pretrained(address.source, **hub)
        except OSError:
            log.debug("%s has no generation config", address.text)
    return GenerationConfig.from_model_config(config)


def load_model(
    address: ModelAddress, config: Any, dtype: torch.dtype, attention: str, hub: Mapping[str, Any]
) -> torch.nn.Module:
    """The model, in eval mode, with the weights of its address; an embedded one with fresh ones of the global seed."""
    from transformers import AutoModelForCausalLM

    if address.embedded:
        model = AutoModelForCausalLM.from_config(config, attn_implementation=attention, dtype=dtype)
        return model  # type: ignore[no-any-return]
    if address.gguf_file:
        return _rehouse(_from_pretrained(AutoModelForCausalLM, address, hub, dtype=dtype), attention, dtype)
    return _from_pretrained(  # type: ignore[no-any-return]
        AutoModelForCausalLM, address, hub, config=config, dtype=dtype, attn_implementation=attention
    )


def _rehouse(loaded: Any, attention: str, dtype: torch.dtype) -> torch.nn.Module:
    # A model read from GGUF counts as quantized and refuses to be saved, although its weights are plain tensors.
    from transformers import AutoModelForCausalLM

    config = copy.deepcopy(loaded.config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    disable_in_config(config)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention, dtype=dtype)
    model.load_state_dict(loaded.state_dict())
    model.tie_weights()
    model.generation_config = loaded.generation_config
    return model  # type: ignore[no-any-return]


def export(policy: CausalLM, folder: Path) -> None:
    """Write model, tokenizer, chat template and generation config so that plain transformers loads them.

    Adapters are merged into the weights of the copy that is written; the policy itself stays as it is.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model = policy.causal_lm
    if policy.lora:
        model = copy.deepcopy(policy.model).merge_and_unload()
    model.generation_config = copy.deepcopy(policy.generation_config)
    model.generation_config.eos_token_id = sorted(policy.stop_ids)
    model.generation_config.pad_token_id = policy.tokenizer.pad_token_id
    model.save_pretrained(folder)
    policy.tokenizer.save_pretrained(folder)
