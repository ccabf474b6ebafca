"""A character tokenizer that chats: turns are opened and closed by special tokens."""

from __future__ import annotations

from typing import Any

from grpo_lightning.policies.embedded import character_tokenizer

TEMPLATE = (
    "{% for message in messages %}<|start|>{{ message['role'] }}\n{{ message['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% if thinking is defined and not thinking %}--{% endif %}"
    "{% endif %}"
)
START, END = 99, 100
CHAT_VOCABULARY = 101


def chat_tokenizer(*, template: str = TEMPLATE, eos: str = "<|end|>") -> Any:
    """The character tokenizer with ``<|start|>`` and ``<|end|>``; the latter is the end of a sequence, too."""
    tokenizer = character_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|start|>", "<|end|>"]})
    tokenizer.eos_token = eos
    tokenizer.chat_template = template
    assert tokenizer.convert_tokens_to_ids(["<|start|>", "<|end|>"]) == [START, END]
    return tokenizer
