"""Supervised rows and terms."""

from __future__ import annotations

import pytest
import torch

from grpo_lightning.auxiliary.supervised import Supervised
from grpo_lightning.errors import DataError
from grpo_lightning.policies.causal_lm import CausalLM
from helpers.tiny_policy import EOS, row_distributions, text_prompt, tiny_policy


@pytest.fixture(scope="module")
def policy() -> CausalLM:
    return tiny_policy()


def test_rows_end_with_the_end_of_the_turn(policy: CausalLM) -> None:
    prompts = [text_prompt("7+8=", 0, answer="15"), text_prompt("z", 1, answer=4), text_prompt("a", 2, answer="")]
    rows = Supervised().rows(policy, prompts)
    assert rows.prompts.tolist() == [policy.tokenizer.encode(text) for text in ("7+8=", "z", "a")]
    assert rows.actions.tolist() == [[*policy.tokenizer.encode(text), EOS] for text in ("15", "4", "")]
    assert bool(rows.trainable_S.all())
    assert rows.lengths_R.tolist() == [3, 2, 1]
    assert Supervised().normaliser(rows) == 6.0


def test_loss_is_the_mean_negative_log_likelihood(policy: CausalLM) -> None:
    prompts = [text_prompt("7+8=", 0, answer="15"), text_prompt("z", 1, answer="402")]
    loss = Supervised()
    rows = loss.rows(policy, prompts)
    with torch.no_grad():
        found = loss.terms(policy(rows)["log_prob"]).sum() / loss.normaliser(rows)
        total, steps = 0.0, 0
        for prompt, actions in zip(rows.prompts.tolist(), rows.actions.tolist(), strict=True):
            lp = row_distributions(policy.causal_lm, prompt, actions)
            total -= sum(float(lp[step, token]) for step, token in enumerate(actions))
            steps += len(actions)
    assert float(found) == pytest.approx(total / steps, rel=1e-12)


def test_another_column(policy: CausalLM) -> None:
    rows = Supervised(target="solution").rows(policy, [text_prompt("a", 0, answer="no", solution="yes")])
    assert policy.decode(rows.actions.tolist()[0]) == "yes"


@pytest.mark.parametrize("columns", [{}, {"answer": None}])
def test_a_row_without_an_answer_is_named(policy: CausalLM, columns: dict[str, None]) -> None:
    with pytest.raises(DataError, match=r"train\[9\]\.answer: None is no answer to learn from"):
        Supervised().rows(policy, [text_prompt("a", 9, **columns)])


def test_a_row_longer_than_the_context_is_named(policy: CausalLM) -> None:
    Supervised().rows(policy, [text_prompt("a" * 200, 3, answer="b" * 55)])
    with pytest.raises(DataError, match=r"train\[3\]: '257 tokens' of prompt and answer are more than .* \(256\)"):
        Supervised().rows(policy, [text_prompt("a" * 200, 3, answer="b" * 56)])


def test_no_rows(policy: CausalLM) -> None:
    rows = Supervised().rows(policy, [])
    assert len(rows) == 0
    assert Supervised().normaliser(rows) == 0.0
