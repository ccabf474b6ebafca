"""Deep models counted by shallow ones, against the same counted whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from grpo_lightning import create
from grpo_lightning.kl.base import KLTerm
from grpo_lightning.planning.depth import DEEP, count_deep, equal_layers
from grpo_lightning.planning.passes import count
from grpo_lightning.planning.rows import Lengths
from grpo_lightning.policies.lora import LoRA
from helpers.hand_sized_model import choice, module

LENGTHS = Lengths(prompt=5, completion=4, group_size=3, groups=2, updates=2)


def deep(path: Path, layers: int, **more: Any) -> Any:
    term = KLTerm(estimator=create("kl", "k2"), weight=0.1, where="loss")
    made = module(path, kl=term)
    written = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(written | {"num_hidden_layers": layers} | more))
    made.policy.prepared = False
    made.policy.prepare()
    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"lora": LoRA(rank=2), "precision": "bf16-mixed"},
        {"activation_checkpointing": True, "processes": 2, "strategy": "fsdp2", "precision": "bf16-mixed"},
    ],
    ids=["whole", "adapters", "checkpointing"],
)
def test_a_deep_model_is_what_it_is_whole(changed: Any, tmp_path: Path) -> None:
    made = deep(tmp_path, DEEP + 3)
    assert equal_layers(made.policy) == DEEP + 3
    found, whole = count_deep(made, choice(**changed), LENGTHS), count(made, choice(**changed), LENGTHS)
    assert found.sizes == whole.sizes
    assert found.phases == whole.phases
    assert len(found.phases) == 4


def test_layers_that_differ_are_not_equal(tmp_path: Path) -> None:
    assert equal_layers(deep(tmp_path, 3).policy) == 3
    mixed = deep(tmp_path, 3)
    mixed.policy.config.layer_types = ["full_attention", "sliding_attention", "full_attention"]
    assert equal_layers(mixed.policy) == 0
    named = deep(tmp_path, 2, model_type="qwen2_moe", architectures=["Qwen2MoeForCausalLM"], mlp_only_layers=[1], num_experts=2,
                 num_experts_per_tok=1, moe_intermediate_size=4, shared_expert_intermediate_size=4)  # fmt: skip
    assert equal_layers(named.policy) == 0
