"""The embedded model: nothing downloaded, every printable character a token."""

from __future__ import annotations

import string

import torch
from transformers import AutoModelForCausalLM

from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.policies.embedded import CHARACTERS, character_tokenizer, tiny_llama_config


def test_one_token_a_character() -> None:
    tokenizer = character_tokenizer()
    assert set(string.printable) - set("\t\r\x0b\x0c") <= set(CHARACTERS)
    assert len(set(CHARACTERS)) == len(CHARACTERS)
    text = "Sort 3 1 2:\n 1 2 3 <eos?>"
    ids = tokenizer.encode(text)
    assert len(ids) == len(text)
    assert tokenizer.decode(ids) == text


def test_special_tokens() -> None:
    tokenizer = character_tokenizer()
    assert tokenizer.convert_tokens_to_ids(["<pad>", "<eos>", "<unk>"]) == [0, 1, 2]
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id) == (0, 1, 2)
    assert tokenizer.encode("aé") == [tokenizer.encode("a")[0], 2]
    assert tokenizer.decode([*tokenizer.encode("ab"), 1, 0], skip_special_tokens=True) == "ab"


def test_size() -> None:
    config = tiny_llama_config(len(character_tokenizer()))
    model = AutoModelForCausalLM.from_config(config)
    assert 250_000 < sum(parameter.numel() for parameter in model.parameters()) < 350_000
    assert (config.eos_token_id, config.pad_token_id) == (1, 0)


def test_weights_follow_the_global_seed() -> None:
    def weights(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        policy = CausalLM(model="embedded://tiny-llama")
        policy.load()
        return torch.cat([parameter.detach().flatten() for parameter in policy.parameters()])

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


def test_chat_messages_are_laid_end_to_end() -> None:
    messages = [{"role": "user", "content": "2+3="}, {"role": "assistant", "content": "5"}]
    assert character_tokenizer().apply_chat_template(messages, tokenize=False) == "2+3=5"
