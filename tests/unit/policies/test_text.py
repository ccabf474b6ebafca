"""Text to tokens and back, with a chat template whose turns end in a special token."""

from __future__ import annotations

from typing import Any

import pytest

from grpo_lightning.errors import ConfigError, DataError
from grpo_lightning.policies.embedded import character_tokenizer
from grpo_lightning.policies.text import TextCodec
from helpers.chat import END, START, chat_tokenizer
from helpers.tiny_policy import text_prompt

EOS = 1


def codec(**changed: Any) -> TextCodec:
    return TextCodec(chat_tokenizer(**changed), {}, frozenset({END, EOS}))


def shown(made: TextCodec, ids: list[int]) -> str:
    return str(made.tokenizer.decode(ids))


def message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def test_plain_text_is_taken_as_it_is() -> None:
    made = codec()
    assert shown(made, made.encode(text_prompt("1 + 2 =\n"))) == "1 + 2 =\n"


def test_chat_opens_the_answer() -> None:
    made = codec()
    ids = made.encode(text_prompt([message("system", "be short"), message("user", "2+3")]))
    assert shown(made, ids) == "<|start|>system\nbe short<|end|>\n<|start|>user\n2+3<|end|>\n<|start|>assistant\n"
    assert ids.count(START) == 3
    assert ids.count(END) == 2


def test_a_prefilled_answer_is_continued() -> None:
    made = codec()
    ids = made.encode(text_prompt([message("user", "2+3"), message("assistant", "<think>")]))
    assert shown(made, ids) == "<|start|>user\n2+3<|end|>\n<|start|>assistant\n<think>"


def test_arguments_of_the_template() -> None:
    made = TextCodec(chat_tokenizer(), {"thinking": False}, frozenset({END}))
    assert shown(made, made.encode(text_prompt([message("user", "2+3")]))).endswith("assistant\n--")


@pytest.mark.parametrize("empty", ["", []])
def test_an_empty_prompt_is_named(empty: Any) -> None:
    with pytest.raises(DataError, match=r"train\[7\]\.prompt"):
        codec().encode(text_prompt(empty, 7))


def test_chat_without_a_template_is_named() -> None:
    tokenizer = character_tokenizer()
    tokenizer.chat_template = None
    with pytest.raises(ConfigError, match="no chat template"):
        TextCodec(tokenizer, {}, frozenset({EOS})).encode(text_prompt([message("user", "2+3")]))


def test_a_template_that_refuses_is_named() -> None:
    template = "{{ raise_exception('roles must alternate') }}"
    with pytest.raises(
        DataError, match=r"train\[3\]\.prompt: .* refused by the chat template \(roles must alternate\)"
    ):
        codec(template=template).encode(text_prompt([message("user", "2+3")], 3))


def test_a_target_ends_the_turn() -> None:
    made = codec()
    assert made.encode_target("42")[-1] == END
    assert shown(made, made.encode_target("42")) == "42<|end|>"


def test_the_end_of_a_target_without_an_end_of_sequence() -> None:
    tokenizer = character_tokenizer()
    tokenizer.eos_token = None
    assert TextCodec(tokenizer, {}, frozenset({9, 7})).encode_target("4") == [*tokenizer.encode("4"), 7]
    assert TextCodec(tokenizer, {}, frozenset()).encode_target("4") == tokenizer.encode("4")


def test_observation_as_plain_text() -> None:
    made = codec()
    assert shown(made, made.encode_observation("wrong ", [5, EOS], chat=False)) == "wrong "


NEXT = "\n<|start|>user\nwrong<|end|>\n<|start|>assistant\n"


@pytest.mark.parametrize(
    ("previous", "wanted"),
    [
        ([20, 21, END], NEXT),  # the policy closed its turn itself
        ([20, 21], "<|end|>" + NEXT),  # a stop string ended it
        ([20, 21, EOS], "<|end|>" + NEXT),  # it ended in another way than turns are closed
        ([], "<|end|>" + NEXT),
    ],
)
def test_observation_as_a_message_does_not_close_the_turn_twice(previous: list[int], wanted: str) -> None:
    made = codec()
    assert shown(made, made.encode_observation("wrong", previous, chat=True)) == wanted


def test_a_turn_closed_by_a_special_token_that_is_no_stop_id_is_not_closed_again() -> None:
    made = TextCodec(chat_tokenizer(eos="<eos>"), {}, frozenset({EOS}))
    assert shown(made, made.encode_observation("wrong", [20, END], chat=True)) == NEXT


def test_decode_leaves_the_end_of_the_turn_out() -> None:
    made = codec()
    ids = made.tokenizer.encode("a b", add_special_tokens=False)
    for tail in ([END], [EOS], []):
        assert made.decode([*ids, *tail]) == "a b"
    assert made.decode([]) == ""
    assert made.decode([END]) == ""
    assert made.decode([START, *ids]) == "a b"


def test_special_tokens_among_stop_strings() -> None:
    made = codec()
    assert made.special_ids(["<|end|>", "x", "</answer>", "<|start|>a", "<|start|>"]) == {END, START}
    assert made.special_ids([]) == frozenset()


def test_prefix_stability() -> None:
    assert codec().check_prefix_stability() is None
    forgets = (
        "{% for m in messages %}{{ m['role'] }}"
        "{% if m['role'] == 'user' or loop.last %}{{ m['content'] }}{% endif %}{% endfor %}"
    )
    assert codec(template=forgets).check_prefix_stability() == "rewrites earlier turns when a later one is added"
    tokenizer = character_tokenizer()
    tokenizer.chat_template = None
    assert TextCodec(tokenizer, {}, frozenset({EOS})).check_prefix_stability() is None


def test_every_printable_character_survives() -> None:
    made = TextCodec(character_tokenizer(), {}, frozenset({EOS}))
    text = "".join(chr(code) for code in range(32, 127)) + "\n  two  spaces"
    assert made.decode(made.encode(text_prompt(text))) == text
