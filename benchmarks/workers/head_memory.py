"""Memory of the head: a forward and backward pass of a one-layer model with a large vocabulary."""

from __future__ import annotations

import argparse

import torch
from measuring import models
from measuring.endless import EndlessLM
from measuring.protocol import Channel
from measuring.workload import token_prompts

HIDDEN, PROMPT = 576, 16


def policy_of(vocabulary: int) -> EndlessLM:
    """A random model of SmolLM2's width, with one layer and a head of its own."""
    from transformers import LlamaConfig

    torch.manual_seed(0)
    policy = EndlessLM(model="embedded://tiny-llama")
    policy.prepare()
    policy.config = LlamaConfig(vocab_size=vocabulary, hidden_size=HIDDEN, intermediate_size=1536, num_hidden_layers=1,
                                num_attention_heads=9, num_key_value_heads=3, head_dim=64,
                                tie_word_embeddings=False)  # fmt: skip
    policy.load()
    return policy


def run(policy: EndlessLM, vocabulary: int, rows: int, steps: int) -> None:
    """One pass; every step's log-probability gets a gradient."""
    for parameter in policy.parameters():
        parameter.grad = None
    policy(models.rows(token_prompts(vocabulary, PROMPT, 1, seed=0), rows, steps))["log_prob"].sum().backward()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vocabulary", type=int, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True, help="steps of each row")
    given = parser.parse_args()
    channel = Channel(release=True)
    policy = policy_of(given.vocabulary)
    run(policy, given.vocabulary, 1, 2)  # threads and buffers of the backend are there from now on
    for parameter in policy.parameters():
        parameter.grad = None
    channel.ready()
    channel.order()
    run(policy, given.vocabulary, given.rows, given.steps)
    channel.done(gradient_bytes=sum(each.numel() * each.element_size() for each in policy.parameters()))


if __name__ == "__main__":
    main()
