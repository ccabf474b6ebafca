"""Auxiliary losses: which rows, in which micro-batches, at what weight."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from grpo_lightning.auxiliary.supervised import Supervised
from grpo_lightning.errors import ConfigError
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.rollout import world
from grpo_lightning.rollout.auxiliary import AuxiliaryRows, AuxiliaryStream, AuxiliaryStreams, drawn_indices
from grpo_lightning.rollout.statistics import UpdateStatistics
from grpo_lightning.settings import AuxiliaryTerm, named_terms
from grpo_lightning.types import Prompt
from helpers.tiny_policy import text_prompt


@pytest.fixture(scope="module")
def policy() -> CausalLM:
    made = CausalLM(model="embedded://tiny-llama")
    made.prepare()
    return made


def prompt(index: int) -> Prompt:
    return text_prompt("q" * (1 + index % 3), index, answer="a" * (index % 5))


def test_every_row_once_a_pass_in_an_order_of_its_own() -> None:
    flat = [index for update in range(7) for index in drawn_indices(update, 3, 7, seed=2, stream="warmup")]
    passes = [flat[:7], flat[7:14], flat[14:21]]
    assert all(sorted(each) == list(range(7)) for each in passes)
    assert passes[0] != passes[1] != passes[2]
    assert flat == [index for update in range(7) for index in drawn_indices(update, 3, 7, seed=2, stream="warmup")]
    assert flat != [index for update in range(7) for index in drawn_indices(update, 3, 7, seed=3, stream="warmup")]


def test_an_update_may_take_several_passes() -> None:
    taken = drawn_indices(1, 5, 2, seed=0, stream="warmup")
    assert len(taken) == 5
    assert sorted(taken[1:3]) == sorted(taken[3:5]) == [0, 1]


def stream(policy: CausalLM, rows: int, *, budget: int = 1000, size: int = 10) -> AuxiliaryStream:
    source = AuxiliaryRows(prompt, size, rows, seed=0, stream="auxiliary/test")
    return AuxiliaryStream(Supervised(), policy, source, budget=budget, row_tokens=8)


@pytest.mark.parametrize(("budget", "most"), [(1000, 1), (16, 6), (1, 6)])
def test_every_row_is_in_one_micro_batch(policy: CausalLM, budget: int, most: int) -> None:
    made = stream(policy, 6, budget=budget)
    batch = made.open(1)
    indices = drawn_indices(1, 6, 10, seed=0, stream="auxiliary/test")
    assert sorted(row for part in batch.micro_batches for row in part.tolist()) == list(range(6))
    assert len(batch.micro_batches) <= made.micro_batches <= most
    assert batch.rollouts.prompts.lengths().tolist() == [1 + index % 3 for index in indices]
    assert batch.rollouts.actions.lengths().tolist() == [1 + index % 5 for index in indices]
    assert batch.normaliser == sum(1 + index % 5 for index in indices)
    taken = [made.rows_of(index) for index in range(made.micro_batches + 1)]
    assert taken[-1] is None
    assert sum(len(each) for each in taken if each is not None) == 6
    assert all(part.dtype == torch.int64 for part in batch.micro_batches)


def test_ranks_share_rows_and_normaliser(policy: CausalLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "block", lambda n: range(0, 0))
    monkeypatch.setattr(world, "gather", lambda value: [value, 12.0])
    batch = stream(policy, 2).open(0)
    assert len(batch.rollouts) == 0
    assert batch.micro_batches == []
    assert batch.normaliser == 12.0


def term(**settings: Any) -> AuxiliaryTerm:
    return AuxiliaryTerm(loss=Supervised(), **settings)


def test_a_weight_goes_in_equal_steps_and_stays() -> None:
    moving = term(weight=0.9, final_weight=0.1, decay_updates=4, decay="linear")
    assert [moving.weight_at(update) for update in (0, 1, 2, 4, 9)] == pytest.approx(
        [0.9, 0.7, 0.5, 0.1, 0.1], abs=1e-15
    )
    assert term(weight=0.3).weight_at(7) == 0.3
    # By a cosine: the middle is reached in the middle, the quarter at a third of the way.
    cosine = term(weight=0.8, final_weight=0.2, decay_updates=6, warmup_updates=2)
    found = [cosine.weight_at(update) for update in (0, 1, 2, 4, 5, 8, 9)]
    assert found == pytest.approx([0.0, 0.4, 0.8, 0.65, 0.5, 0.2, 0.2], abs=1e-15)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"weight": -0.1}, "weight"),
        ({"weight": 1.1, "complement": True}, "weight"),
        ({"final_weight": 0.1}, "decay_updates"),
        ({"rows": 0}, "rows"),
    ],
)
def test_wrong_terms_are_named(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=f"^{named}: "):
        term(**settings)


def test_terms_have_names_of_their_own_and_leave_grpo_something() -> None:
    assert list(named_terms([term(), term(name="other")])) == ["supervised", "other"]
    with pytest.raises(ConfigError, match=r"model\.auxiliary: 'supervised' is the name of two losses"):
        named_terms([term(), term()])
    with pytest.raises(ConfigError, match=r"model\.auxiliary: 1\.2 is the sum of the weights with complement"):
        named_terms([term(weight=0.6, complement=True), term(weight=0.6, complement=True, name="b")])


def test_losses_beside_grpo_follow_each_other_by_micro_batch(policy: CausalLM, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, none = stream(policy, 3, budget=8), stream(policy, 2), stream(policy, 2)
    values = {id(first): 2.0, id(second): 5.0}
    monkeypatch.setattr(AuxiliaryStream, "value", lambda self, rows: torch.tensor(values[id(self)] * len(rows)))
    terms = {"a": term(weight=0.5, complement=True), "b": term(weight=0.25), "none": term(weight=0.0)}
    beside = AuxiliaryStreams(terms, {"a": first, "b": second, "none": none})
    beside.open(0)
    assert beside.micro_batches == first.micro_batches + second.micro_batches + none.micro_batches
    assert beside.left_for_grpo == 0.5
    statistics = UpdateStatistics()
    losses = [beside.loss(index, statistics) for index in range(beside.micro_batches + 1)]
    # Three rows at 0.5 * 2, in as many micro-batches as they need; two at 0.25 * 5 in one; nothing at weight 0.
    assert sum(float(loss) for loss in losses if loss is not None) == 0.5 * 2 * 3 + 0.25 * 5 * 2
    assert losses[first.micro_batches] == torch.tensor(2.5)
    assert losses[first.micro_batches + 1 :] == [None] * (none.micro_batches + 1)
    found = statistics.reduce()
    assert found["auxiliary/a/loss"] == 6.0
    assert found["auxiliary/b/loss"] == 10.0
    assert found["train/loss"] == 5.5
    assert beside.metrics() == {"auxiliary/a/weight": 0.5, "auxiliary/b/weight": 0.25, "auxiliary/none/weight": 0.0}
