"""The policy that is a causal language model of transformers."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from typing_extensions import override

from grpo_lightning import profiling
from grpo_lightning.errors import ConfigError, require, require_range
from grpo_lightning.functional.linear import faster_linears
from grpo_lightning.functional.log_probs import HEAD_LOGITS, chunked_functionals
from grpo_lightning.policies import loading
from grpo_lightning.policies.activation_checkpointing import checkpoint_layers
from grpo_lightning.policies.addresses import resolve_address
from grpo_lightning.policies.base import Policy, Weights
from grpo_lightning.policies.decoder_layers import frozen_copy, gather_outermost, load_frozen, shard_layers
from grpo_lightning.policies.dropout import disable_in_config, disable_in_modules
from grpo_lightning.policies.layout import LAYOUTS, ModelInputs
from grpo_lightning.policies.lora import LoRA, merge_and_reset
from grpo_lightning.policies.probes import head_is_apart, keeps_rows_apart, shares_prompts
from grpo_lightning.policies.text import TextCodec
from grpo_lightning.types import Prompt, Rollouts

log = logging.getLogger(__name__)

_DTYPES = ("float32", "bfloat16", "float16", "float64")


class CausalLM(Policy):
    """A causal language model: a step is a token.

    Args:
        model: Hub id, local folder, ``.gguf`` file, ``package://NAME/FILE`` or ``embedded://tiny-llama``.
        lora: Train adapters instead of all weights.
        template: Further arguments of the chat template, such as ``{enable_thinking: false}``.
        layout: ``shared`` lays rows flat and runs a prompt once for all that follow it; ``padded`` runs every row by itself,
            padded on the right; ``packed`` lays whole rows end to end. ``auto`` packs where attention can skip what lies
            between rows (flash attention) and shares elsewhere. A model that does not allow a layout is padded, and that is
            told.
        attention: Attention implementation of transformers; ``auto`` for the one that it chooses for the model.
        dtype: Type of the weights.
        head_logits: Logits that may exist at once when log-probabilities are computed.
        activation_checkpointing: Keep only what goes into each layer, and run the layer again in the backward pass: less
            memory for about a third more time.
        revision: Revision of a hub model.
        trust_remote_code: Run code that comes with a hub model.
    """

    name = "causal_lm"
    example: ClassVar[Mapping[str, Any]] = {"model": "embedded://tiny-llama"}

    def __init__(
        self,
        *,
        model: str,
        lora: LoRA | None = None,
        template: dict[str, Any] | None = None,
        layout: Literal["auto", "shared", "padded", "packed"] = "auto",
        attention: str = "auto",
        dtype: Literal["float32", "bfloat16", "float16", "float64"] = "float32",
        head_logits: int = HEAD_LOGITS,
        activation_checkpointing: bool = False,
        revision: str | None = None,
        trust_remote_code: bool = False,
    ) -> None:
        super().__init__()
        require_range("head_logits", head_logits, low=1)
        require(layout in ("auto", *LAYOUTS), "layout", layout, "is no layout", "set auto, " + ", ".join(LAYOUTS))
        require(dtype in _DTYPES, "dtype", dtype, "is no type of weights", "set " + ", ".join(_DTYPES))
        self.address = resolve_address(model)
        self.lora, self.template, self.attention = lora, dict(template or {}), attention
        self.layout: str = layout
        self.dtype: torch.dtype = getattr(torch, dtype)
        self.head_logits, self.activation_checkpointing = head_logits, activation_checkpointing
        self.hub_arguments = {"revision": revision, "trust_remote_code": trust_remote_code}
        self.prepared = False
        self.merges = 0  # how often adapters were added to the weights below them
        self.model: Any = None
        self._head_is_apart = True
        # In a list, so that the frozen copy is no submodule: not trained, not in checkpoints, not wrapped by strategies.
        self._reference: list[nn.Module] = []
        self._mesh: Any = None

    @override
    def prepare(self) -> None:
        if self.prepared:
            return
        self.tokenizer = loading.load_tokenizer(self.address, self.hub_arguments)
        self.config = loading.load_config(self.address, self.tokenizer, self.hub_arguments)
        disable_in_config(self.config)
        self.generation_config = loading.load_generation_config(self.address, self.config, self.hub_arguments)
        self.codec = TextCodec(self.tokenizer, self.template, self.stop_ids)
        self.prepared = True

    @override
    def load(self) -> None:
        if self.model is not None:
            return
        self.prepare()
        self._take(loading.load_model(self.address, self.config, self.dtype, self.attention, self.hub_arguments))
        self._probe()
        if self.activation_checkpointing:
            checkpoint_layers(self.model)

    @override
    def outline(self) -> None:
        self.prepare()
        self._take(loading.outline(self.config, self.dtype, self.attention))
        if self.activation_checkpointing:
            checkpoint_layers(self.model)

    def _take(self, model: Any) -> None:
        disable_in_modules(model)
        self.model = self.lora.apply(model) if self.lora else model
        self.model.train()
        if self.layout == "auto":
            self.layout = "packed" if "flash" in self.attention else "shared"

    @property
    def causal_lm(self) -> Any:
        """The transformers model, adapters inside it."""
        return self.model.get_base_model() if self.lora else self.model

    @property
    @override
    def context_length(self) -> int:
        text_config = self.config.get_text_config()
        return int(getattr(text_config, "max_position_embeddings", None) or 1 << 20)

    @property
    @override
    def shares_prompts(self) -> bool:
        return self.layout == "shared"

    @property
    @override
    def stop_ids(self) -> frozenset[int]:
        found: set[int | None] = {self.tokenizer.eos_token_id}
        for config in (self.generation_config, self.config.get_text_config()):
            ids = getattr(config, "eos_token_id", None)
            found |= set(ids if isinstance(ids, list | tuple) else [ids])
        return frozenset(index for index in found if index is not None)

    @override
    def stop_ids_of(self, texts: Sequence[str]) -> frozenset[int]:
        return self.codec.special_ids(texts)

    @override
    def encode(self, prompt: Prompt) -> Tensor:
        return torch.tensor(self.codec.encode(prompt), dtype=torch.int64)

    @override
    def encode_target(self, text: str) -> Tensor:
        return torch.tensor(self.codec.encode_target(text), dtype=torch.int64)

    @override
    def encode_observation(self, prompt: Prompt, text: str, previous: Sequence[int]) -> Tensor:
        chat = not isinstance(prompt.messages, str)
        return torch.tensor(self.codec.encode_observation(text, previous, chat=chat), dtype=torch.int64)

    @override
    def check_turns(self) -> None:
        fault = self.codec.check_prefix_stability()
        if fault:
            raise ConfigError("template", self.template, f"belongs to a chat template that {fault}",
                              "use a model or template arguments that keep earlier turns as they are")  # fmt: skip

    @override
    def decode(self, steps: Sequence[int]) -> str:
        return self.codec.decode(steps)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.model.parameters()).device  # type: ignore[no-any-return]

    @override
    def forward(
        self,
        rows: Rollouts,
        functionals: Collection[str] = (),
        weights: Weights = "current",
        observed: Collection[str] = (),
    ) -> dict[str, Tensor]:
        inputs = LAYOUTS[self.layout](rows, self.device)
        inputs.work.count(self.causal_lm, recomputed=self.activation_checkpointing)
        chosen_S = rows.actions.values[rows.trainable_S]
        steps = rows.trainable_S.nonzero().squeeze(1)
        exact = {}
        with self._weights(weights) as model:
            hidden_SH = self._hidden(model, inputs)
            if "exact_kl" in {*functionals, *observed}:
                with torch.no_grad(), self._weights("reference") as reference:
                    reference_head = self._head(reference)
                    exact = {
                        "reference_hidden_SH": self._hidden(reference, inputs),
                        "reference_head": reference_head if type(reference_head) is nn.Linear else self._reference_head,
                    }
            with profiling.phase(profiling.HEAD):
                again = len(steps) * self.config.get_text_config().vocab_size > self.head_logits
                profiling.count_head(self.causal_lm, len(steps), recomputed=again)
                return chunked_functionals(
                    hidden_SH,
                    self._head(model),
                    chosen_S.to(self.device, torch.int64),
                    rows.temperature_R[rows.row_S][rows.trainable_S].to(self.device),
                    None if rows.support is None else rows.support.select(steps),
                    functionals,
                    observed=observed,
                    head_logits=self.head_logits,
                    **exact,  # type: ignore[arg-type]
                )

    @contextlib.contextmanager
    def _weights(self, weights: Weights) -> Iterator[Any]:
        if weights == "current":
            yield self.causal_lm
        elif self.lora:
            with self.model.disable_adapter():
                yield self.causal_lm
        elif self._reference:
            yield self._reference[0]
        else:
            raise RuntimeError("the reference was asked for before freeze_reference")

    def _hidden(self, model: Any, inputs: ModelInputs) -> Tensor:
        with faster_linears():
            if self._head_is_apart:
                return inputs.outputs(model.base_model, lambda output: output.last_hidden_state)
            return inputs.outputs(model, lambda output: output.logits)

    def _head(self, model: Any) -> Callable[[Tensor], Tensor]:
        return model.get_output_embeddings() if self._head_is_apart else nn.Identity()

    def _reference_head(self, hidden_SH: Tensor) -> Tensor:
        # Adapters are switched off for the head, too, which may run long after the layers below it.
        with self._weights("reference") as reference:
            return self._head(reference)(hidden_SH)

    @torch.no_grad()
    def _probe(self) -> None:
        """Compare the fast paths with the plain one on a few tokens, and leave those that differ."""
        width = min(8, self.context_length)
        ids = torch.arange(2 * width, device=self.device).reshape(2, width) % self.config.get_text_config().vocab_size
        model = self.causal_lm
        if not head_is_apart(model, ids):
            self._head_is_apart = False
            log.warning(
                "%s changes its logits after the head: logits of a micro-batch are held at once", self.address.text
            )
        if self.layout == "packed" and not keeps_rows_apart(model, ids):
            self.layout = "padded"
            log.warning("%s does not keep packed rows apart: rows are padded", self.address.text)
        if self.layout == "shared" and (fault := shares_prompts(model, ids)):
            self.layout = "padded"
            log.warning("%s cannot share a prompt between rows (%s): every row runs its own", self.address.text, fault)

    @override
    def shard(self, mesh: Any) -> None:
        self._mesh = mesh
        shard_layers(self.model, self, mesh)

    @override
    def freeze_reference(self) -> None:
        if self.lora:
            merge_and_reset(self.model)
            self.merges += 1
            return
        self._reference = [frozen_copy(self.model, self._mesh)]

    @property
    @override
    def frozen(self) -> Sequence[nn.Module]:
        return self._reference

    @override
    def reference_state(self) -> Mapping[str, Tensor] | None:
        if not self._reference:
            return None
        state = self._reference[0].state_dict()
        gather_outermost(self._reference[0])
        return state

    @override
    def load_reference(self, state: Mapping[str, Tensor]) -> None:
        if not self._reference:
            self.freeze_reference()
        load_frozen(self._reference[0], state)

    @override
    def export(self, folder: Path) -> None:
        loading.export(self, folder)
