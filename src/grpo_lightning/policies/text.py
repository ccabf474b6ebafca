"""Text to tokens and back: prompts, answers, observations, by a tokenizer and its chat template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grpo_lightning.errors import ConfigError, DataError
from grpo_lightning.types import Prompt

_PLACEHOLDER = "GRPO-ANSWER-PLACEHOLDER"


class TextCodec:
    """Encodes with one tokenizer; token-in, token-out: what the policy wrote is never encoded again.

    Args:
        tokenizer: A transformers tokenizer.
        template: Further arguments of its chat template.
        stop_ids: Ids that end a turn.
    """

    def __init__(self, tokenizer: Any, template: Mapping[str, Any], stop_ids: frozenset[int]) -> None:
        self.tokenizer, self.template, self.stop_ids = tokenizer, dict(template), stop_ids
        # What decoding with skip_special_tokens leaves out.
        self._special = {index for index, token in tokenizer.added_tokens_decoder.items() if token.special}

    def encode(self, prompt: Prompt) -> list[int]:
        """Ids of a prompt, up to where the policy begins to write.

        Chat messages go through the chat template; a last message of the assistant is continued, not closed.

        Raises:
            DataError: If the prompt is empty or the template refuses it.
        """
        where = f"{prompt.dataset}[{prompt.index}].prompt"
        if isinstance(prompt.messages, str):
            ids = self._ids(prompt.messages, special=True)
        else:
            ids = self._ids(self._render(list(prompt.messages), where), special=False)
        if not ids:
            raise DataError(where, prompt.messages, "is empty", "give it at least one token")
        return ids

    def _render(self, messages: Sequence[Mapping[str, Any]], where: str) -> str:
        if not self.tokenizer.chat_template:
            raise ConfigError(where, messages[-1], "is a chat message and the tokenizer has no chat template",
                              "use plain text prompts or a chat model")  # fmt: skip
        continued = bool(messages) and messages[-1].get("role") == "assistant"
        try:
            text = self.tokenizer.apply_chat_template(
                messages,
                tokenize=False,
                add_generation_prompt=not continued,
                continue_final_message=continued,
                **self.template,
            )
        except Exception as error:  # templates are programs of their own and raise what they like
            raise DataError(
                where, messages, f"is refused by the chat template ({error})", "mend the messages"
            ) from None
        return str(text)

    def _ids(self, text: str, *, special: bool) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=special)
        return ids

    def encode_target(self, text: str) -> list[int]:
        """Ids of a whole answer and the end of the turn; a model without any stop id has no end to write."""
        end = [self.tokenizer.eos_token_id] if self.tokenizer.eos_token_id is not None else sorted(self.stop_ids)[:1]
        return [*self._ids(text, special=False), *end]

    def encode_observation(self, text: str, previous: Sequence[int], *, chat: bool) -> list[int]:
        """Ids that show an observation and open the next turn.

        With a chat template the observation is a user's message: the ids are what the template writes after the
        assistant's message, less the end of the turn where the policy wrote it itself. Otherwise they are the text's.
        """
        if not chat:
            return self._ids(text, special=False)
        messages = [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": _PLACEHOLDER},
            {"role": "user", "content": text},
        ]
        rendered = self._render(messages, "observation")
        ids = self._ids(rendered[rendered.index(_PLACEHOLDER) + len(_PLACEHOLDER) :], special=False)
        if previous and ids and ids[0] == previous[-1] and ids[0] in self.stop_ids | self._special:
            ids = ids[1:]
        return ids

    def special_ids(self, texts: Sequence[str]) -> frozenset[int]:
        """Ids of those of ``texts`` that are one special token."""
        encoded = [self._ids(text, special=False) for text in texts]
        return frozenset(ids[0] for ids in encoded if len(ids) == 1 and ids[0] in self._special)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, without a stop id at the end and without special tokens."""
        ids = list(ids)
        if ids and ids[-1] in self.stop_ids:
            ids.pop()
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))

    def check_prefix_stability(self) -> str | None:
        """What is wrong with the chat template for several turns, or ``None``.

        A template that changes earlier turns when later ones are added cannot be continued token by token.
        """
        if not self.tokenizer.chat_template:
            return None
        first = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        start = self._render(first, "chat template")
        whole = self._render([*first, {"role": "user", "content": "c"}], "chat template")
        return None if whole.startswith(start) else "rewrites earlier turns when a later one is added"
