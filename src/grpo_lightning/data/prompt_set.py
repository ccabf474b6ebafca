"""A data set of prompts, encoded once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from grpo_lightning.errors import DataError
from grpo_lightning.policies.base import Policy
from grpo_lightning.prompts.base import PromptSource
from grpo_lightning.settings import LongPromptPolicy
from grpo_lightning.types import Prompt, Ragged


@dataclass(frozen=True)
class PromptFormat:
    """How rows become prompts."""

    system_prompt: str | None
    prefill: str | None
    chat: bool

    def messages(self, prompt: Any) -> str | list[Mapping[str, Any]]:
        """Text or chat messages, with system prompt and prefilled answer."""
        if isinstance(prompt, str) and not (self.chat or self.system_prompt):
            return prompt + (self.prefill or "")
        asked = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        messages: list[Mapping[str, Any]] = [dict(each) for each in asked]
        if self.system_prompt and messages[0]["role"] != "system":
            messages.insert(0, {"role": "system", "content": self.system_prompt})
        if self.prefill:
            messages.append({"role": "assistant", "content": self.prefill})
        return messages


class PromptSet:
    """The rows of a source as prompts, each encoded once.

    Args:
        name: Name of the data set.
        setting: Where it is configured, for errors.
        source: Where rows come from, loaded.
        prompt_format: How they become prompts.
        limit: Use the first rows only.
    """

    def __init__(
        self, name: str, setting: str, source: PromptSource, prompt_format: PromptFormat, limit: int | None = None
    ) -> None:
        self.name, self.setting, self.source, self.format = name, setting, source, prompt_format
        self.rows = list(range(min(len(source), limit) if limit else len(source)))
        self.tokens = Ragged.from_list([], torch.int32)
        self.dropped = 0

    def __len__(self) -> int:
        return len(self.rows)

    def prompt(self, index: int) -> Prompt:
        """The prompt at ``index``."""
        row = dict(self.source[self.rows[index]])
        messages = self.format.messages(row.pop("prompt"))
        return Prompt(self.name, self.rows[index], messages, row)

    def encoded(self, index: int) -> Tensor:
        """[length] int64: the prompt at ``index``, as the policy reads it."""
        return self.tokens[index].to(torch.int64)

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt."""
        return int(self.tokens.lengths().max()) if len(self.tokens) else 0

    def encode(self, policy: Policy, most: int, long_prompts: LongPromptPolicy) -> None:
        """Encode every prompt, and treat those of more than ``most`` tokens as declared.

        Raises:
            DataError: If one is longer and the policy is ``error``, or none is left.
        """
        kept, encoded = [], []
        for index, row in enumerate(self.rows):
            tokens = policy.encode(self.prompt(index)).to(torch.int32)
            if tokens.shape[0] > most:
                if long_prompts == "error":
                    raise DataError(
                        f"{self.setting}[{row}].prompt",
                        f"{tokens.shape[0]} tokens",
                        f"is longer than a prompt may be ({most} tokens)",
                        "set data.long_prompts to drop or truncate, or lower model.generation.max_new_tokens",
                    )
                if long_prompts == "drop":
                    continue
                tokens = tokens[-most:]
            kept.append(row)
            encoded.append(tokens)
        self.dropped = len(self.rows) - len(kept)
        if not kept:
            raise DataError(self.setting, f"{len(self.rows)} rows", f"have prompts of over {most} tokens and are all dropped",
                            "raise data.max_prompt_tokens or set data.long_prompts to truncate")  # fmt: skip
        self.rows, self.tokens = kept, Ragged.from_list(encoded, torch.int32)
