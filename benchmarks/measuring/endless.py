"""A policy whose rows nothing ends but their limit."""

from __future__ import annotations

from typing import ClassVar

from typing_extensions import override

from grpo_lightning.policies.causal_lm import CausalLM


class EndlessLM(CausalLM):
    """A causal language model without stop ids, so that every side of a comparison writes the same number of tokens."""

    name: ClassVar[str] = "endless_lm"

    @property
    @override
    def stop_ids(self) -> frozenset[int]:
        return frozenset()
