"""Losses beside GRPO, and coefficients that follow a target, in the real loop: against sums written out by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from grpo_lightning import create
from grpo_lightning.auxiliary.supervised import Supervised
from grpo_lightning.entropy_bonus import EntropyBonus
from grpo_lightning.kl.base import KLTerm
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.rollout.auxiliary import drawn_indices
from grpo_lightning.settings import AuxiliaryTerm
from helpers.families import family_config
from helpers.tiny_policy import EOS, gradients, load_policy, relative, row_distributions, save_model, tiny_policy
from helpers.tiny_run import PROMPTS, fit, make_module


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model whose layer norms work in float64: norms that round to float32 on the way back are not additive to 1e-10."""
    return save_model(tmp_path_factory.mktemp("model"), family_config("gpt2"))


def supervised_gradient(policy: CausalLM, update: int, rows: int, name: str) -> dict[str, Tensor]:
    """Gradient of ``-(1/T) sum log pi`` over answers and their ends, by loops."""
    indices = drawn_indices(update, rows, len(PROMPTS), 0, f"auxiliary/{name}")
    total, steps = torch.zeros((), dtype=torch.float64), 0
    for index in indices:
        prompt = policy.tokenizer.encode(PROMPTS[index])
        target = [*policy.tokenizer.encode(str(index)), EOS]
        log_probs_TV = row_distributions(policy.causal_lm, prompt, target)
        for step, token in enumerate(target):
            total, steps = total - log_probs_TV[step, token], steps + 1
    (total / steps).backward()
    return gradients(policy)


@pytest.mark.parametrize("budget", [10_000, 40])
def test_chord_trains_the_weighted_sum(tmp_path: Path, folder: str, budget: int) -> None:
    plain = fit(tmp_path / "plain", make_module(load_policy(folder), micro_batch_tokens=budget))
    term = AuxiliaryTerm(loss=Supervised(), weight=0.3, complement=True, rows=4)
    policy = load_policy(folder)
    expected = supervised_gradient(policy, 0, 4, "supervised")
    both = fit(tmp_path / "both", make_module(policy, micro_batch_tokens=budget, auxiliary=[term]))
    grpo, found = plain.change(0), both.change(0)
    # A step of size 1 is the gradient with its sign changed.
    wanted = {name: 0.7 * grpo[name] - 0.3 * expected[name] for name in grpo}
    assert relative(found, wanted) < 1e-10
    metrics = both.metrics(0)
    assert metrics["auxiliary/supervised/weight"] == 0.3
    assert metrics["train/policy_loss"] == pytest.approx(plain.metrics(0)["train/policy_loss"], rel=1e-10)
    total = 0.7 * metrics["train/policy_loss"] + 0.3 * metrics["auxiliary/supervised/loss"]
    assert metrics["train/loss"] == pytest.approx(total, rel=1e-10)


def test_a_term_without_complement_is_added_and_its_weight_decays(tmp_path: Path) -> None:
    term = AuxiliaryTerm(
        loss=Supervised(), weight=0.4, final_weight=0.0, decay_updates=2, decay="linear", rows=3, name="answers"
    )
    seen = fit(tmp_path, make_module(tiny_policy(), auxiliary=[term], learning_rate=1e-3), max_steps=4)
    assert [seen.metrics(update)["auxiliary/answers/weight"] for update in range(4)] == [0.4, 0.2, 0.0, 0.0]
    assert "auxiliary/answers/loss" not in seen.metrics(3)
    for update in range(2):
        metrics = seen.metrics(update)
        total = metrics["train/policy_loss"] + metrics["auxiliary/answers/weight"] * metrics["auxiliary/answers/loss"]
        assert metrics["train/loss"] == pytest.approx(total, rel=1e-10)


def test_phi_weighs_what_is_neither_known_nor_impossible() -> None:
    log_probs = torch.tensor([math.log(0.5), math.log(0.9), math.log(0.01)], dtype=torch.float64, requires_grad=True)
    terms = Supervised(weighting="phi").terms(log_probs)
    wanted = [0.25 * -math.log(0.5), 0.09 * -math.log(0.9), 0.0099 * -math.log(0.01)]
    torch.testing.assert_close(terms.detach(), torch.tensor(wanted).double(), rtol=1e-6, atol=0)


def test_an_entropy_bonus_is_the_mean_entropy_of_all_steps(tmp_path: Path, folder: str) -> None:
    plain = fit(tmp_path / "plain", make_module(load_policy(folder)))
    bonus = fit(tmp_path / "bonus", make_module(load_policy(folder), entropy=EntropyBonus(weight=0.5)))
    rollouts, policy = bonus.rollouts[0], load_policy(folder)
    total, steps = torch.zeros((), dtype=torch.float64), 0
    prompts, actions = rollouts.prompts.tolist(), rollouts.actions.tolist()
    for row in range(len(rollouts)):
        log_probs_TV = row_distributions(policy.causal_lm, prompts[int(rollouts.prompt_R[row])], actions[row])
        total = total - (log_probs_TV.exp() * log_probs_TV).sum()
        steps += len(actions[row])
    (total / steps).backward()
    wanted = gradients(policy)
    change, before = bonus.change(0), plain.change(0)
    assert relative({n: change[n] - before[n] for n in change}, {n: 0.5 * wanted[n] for n in change}) < 1e-10
    metrics = bonus.metrics(0)
    assert metrics["train/entropy_loss"] == pytest.approx(-0.5 * float(total) / steps, rel=1e-10)
    assert metrics["train/entropy_weight"] == 0.5
    assert metrics["policy/entropy"] == pytest.approx(float(total) / steps, rel=1e-10)


def test_the_entropy_coefficient_follows_its_target(tmp_path: Path) -> None:
    bonus = EntropyBonus(weight=0.1, target=100.0, step=0.05)
    seen = fit(tmp_path, make_module(tiny_policy(), entropy=bonus, learning_rate=1e-3), max_steps=3)
    # Nothing was observed before the first update; afterwards every entropy is below a target that high.
    assert [seen.metrics(update)["train/entropy_weight"] for update in range(3)] == pytest.approx([0.0, 0.15, 0.2])


@pytest.mark.parametrize("where", ["loss", "reward"])
def test_the_kl_coefficient_follows_its_target(tmp_path: Path, where: str) -> None:
    kl = KLTerm(estimator=create("kl", "k1"), weight=0.1, where=where, target=50.0, horizon=24)  # type: ignore[arg-type]
    seen = fit(tmp_path, make_module(tiny_policy(), kl=kl, learning_rate=1e-3), max_steps=3)
    # 12 rows an update of horizon 24, far below the target: each measurement multiplies by 1 - 0.2 / 2.
    first = 0.1 if where == "loss" else 0.09
    found = [seen.metrics(update)["train/kl_weight"] for update in range(3)]
    assert found == pytest.approx([first, first * 0.9, first * 0.81])
