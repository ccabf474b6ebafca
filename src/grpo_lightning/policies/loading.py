"""Loading a causal language model's parts from an address, and writing them in Hugging Face format."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError

from grpo_lightning.errors import ConfigError
from grpo_lightning.policies.addresses import ModelAddress
from grpo_lightning.policies.dropout import disable_in_config
from grpo_lightning.policies.embedded import character_tokenizer, tiny_llama_config

if TYPE_CHECKING:
    from grpo_lightning.policies.causal_lm import CausalLM

log = logging.getLogger(__name__)


_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff")


def _from_pretrained(loader: Any, address: ModelAddress, hub: Mapping[str, Any], **more: Any) -> Any:
    try:
        return loader.from_pretrained(address.source, **address.arguments(), **hub, **more)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as error:
        _refuse_attention(error, more.get("attn_implementation"))
        raise ConfigError("model", address.text, f"does not load ({type(error).__name__}: {_first_line(error)})",
                          "check the address, the network and the cache") from error  # fmt: skip


def _refuse_attention(error: Exception, attention: str | None) -> None:
    if attention and ("attention" in str(error).lower() or attention in str(error)):
        raise ConfigError("attention", attention, f"does not go with this model or machine ({_first_line(error)})",
                          "leave it out, or set sdpa or eager") from error  # fmt: skip


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


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
            # What is asked for beside the revision would be kept as if it were a setting of generation.
            return GenerationConfig.from_pretrained(address.source, revision=hub.get("revision"))
        except OSError:
            log.debug("%s has no generation config", address.text)
    return GenerationConfig.from_model_config(config)


def load_model(
    address: ModelAddress, config: Any, dtype: torch.dtype, attention: str, hub: Mapping[str, Any]
) -> torch.nn.Module:
    """The model, in eval mode, with the weights of its address; an embedded one with fresh ones of the global seed."""
    from transformers import AutoModelForCausalLM

    arguments = _arguments(dtype, attention)
    if address.embedded:
        model = _from_config(config, arguments)
    elif address.gguf_file:
        model = _rehouse(_from_pretrained(AutoModelForCausalLM, address, hub, dtype=dtype), arguments)
    else:
        model = _from_pretrained(AutoModelForCausalLM, address, hub, config=config, **arguments)
    if dtype == torch.float64 and getattr(model.config, "_experts_implementation", None):
        model.set_experts_implementation("eager")  # grouped products of experts know no float64
    return model  # type: ignore[no-any-return]


def outline(config: Any, dtype: torch.dtype, attention: str) -> torch.nn.Module:
    """The model of a configuration with weights that nobody has loaded: for those who only want its shapes."""
    plain = copy.deepcopy(config)
    if hasattr(plain, "quantization_config"):
        del plain.quantization_config
    return _from_config(plain, _arguments(dtype, attention))  # type: ignore[no-any-return]


def _arguments(dtype: torch.dtype, attention: str) -> dict[str, Any]:
    return {"dtype": dtype} | ({} if attention == "auto" else {"attn_implementation": attention})


def _from_config(config: Any, arguments: Mapping[str, Any]) -> Any:
    from transformers import AutoModelForCausalLM

    try:
        return AutoModelForCausalLM.from_config(config, **arguments)
    except (ValueError, ImportError) as error:
        _refuse_attention(error, arguments.get("attn_implementation"))
        raise


def _rehouse(loaded: Any, arguments: Mapping[str, Any]) -> torch.nn.Module:
    # A model read from GGUF counts as quantized and refuses to be saved, although its weights are plain tensors.
    from transformers import AutoModelForCausalLM

    config = copy.deepcopy(loaded.config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    disable_in_config(config)
    model = AutoModelForCausalLM.from_config(config, **arguments)
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
    own, model.generation_config = model.generation_config, _generation_config(policy)
    try:
        model.save_pretrained(folder)
    finally:
        model.generation_config = own
    policy.tokenizer.save_pretrained(folder)


def _generation_config(policy: CausalLM) -> Any:
    config = copy.deepcopy(policy.generation_config)
    config.eos_token_id = sorted(policy.stop_ids) or None
    config.pad_token_id = policy.tokenizer.pad_token_id
    if not config.do_sample:  # settings of sampling are then ignored by generate, and refused when saved
        for name in _SAMPLING:
            setattr(config, name, None)
    return config
