"""The embedded model: a small Llama and a character tokenizer, built in code."""

from __future__ import annotations

import string
from typing import Any

_SPECIAL = ["<pad>", "<eos>", "<unk>"]
CHARACTERS = string.digits + string.ascii_letters + string.punctuation + " \n"


def character_tokenizer() -> Any:
    """A tokenizer with one token a character, of printable ASCII; it knows plain text and a bare chat template."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: index for index, token in enumerate([*_SPECIAL, *CHARACTERS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        clean_up_tokenization_spaces=False,
        chat_template="{% for message in messages %}{{ message['content'] }}{% endfor %}",
    )


def tiny_llama_config(vocabulary: int) -> Any:
    """The configuration of ``embedded://tiny-llama``: 3 layers of width 96, about 0.3 million parameters."""
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=6,
        num_key_value_heads=3,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
        initializer_range=0.05,
    )
