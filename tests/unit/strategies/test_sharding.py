"""Sharding, as far as one process can see it; tests/integration/test_world_size.py has the numbers."""

from __future__ import annotations

import copy

import pytest
import torch
from lightning.pytorch.strategies import StrategyRegistry

import grpo_lightning
from grpo_lightning.data.datamodule import _EvaluationLoader
from grpo_lightning.policies.decoder_layers import frozen_copy, layers
from grpo_lightning.rollout import world
from grpo_lightning.strategies.fsdp2 import FSDP2Strategy
from grpo_lightning.strategies.sharding import idle_pass, is_sharded, whole
from helpers.tiny_policy import gradients, tiny_policy


def test_the_name_is_known_to_lightning_once_the_module_is() -> None:
    assert grpo_lightning.GRPOModule
    assert isinstance(StrategyRegistry.get("fsdp2"), FSDP2Strategy)


def test_what_is_not_sharded_is_whole() -> None:
    policy = tiny_policy()
    assert not is_sharded(policy)
    before = copy.deepcopy(policy.state_dict())
    with whole(policy):
        pass
    assert all(torch.equal(each, before[name]) for name, each in policy.state_dict().items())


def test_an_idle_pass_goes_through_all_weights_and_moves_none() -> None:
    policy = tiny_policy()
    loss = idle_pass(policy)
    assert float(loss) == 0
    loss.backward()
    assert all(each.grad is not None for each in policy.parameters())
    assert not any(bool(each.any()) for each in gradients(policy).values())


def test_a_copy_keeps_what_is_shared() -> None:
    model = tiny_policy().causal_lm
    result = frozen_copy(model, None)
    assert not any(each.requires_grad for each in result.parameters())
    assert result.lm_head.weight is not model.lm_head.weight
    assert (result.lm_head.weight is result.model.embed_tokens.weight) == model.config.tie_word_embeddings
    assert len(layers(model)) == model.config.num_hidden_layers


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 17])
@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("batch", [1, 4, 100])
def test_every_rank_evaluates_equally_often(size: int, ranks: int, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "world_size", lambda: ranks)
    found = []
    for rank in range(ranks):
        monkeypatch.setattr(world, "rank", lambda rank=rank: rank)
        found.append(_EvaluationLoader("set", size, batch).batches)
    assert len({len(batches) for batches in found}) == 1
    assert [index for batches in found for each in batches for index in each.indices] == list(range(size))
    largest = -(-size // ranks)
    assert len(found[0]) == max(1, -(-largest // batch))
