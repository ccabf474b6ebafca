"""Numbers of the real Lightning loop: gradients, draws, the first KL, and what is not finite."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from grpo_lightning import GRPODataModule, create
from grpo_lightning.aggregations.base import Aggregation
from grpo_lightning.aggregations.prompt_mean import PromptMean
from grpo_lightning.aggregations.sequence_mean_token_mean import SequenceMeanTokenMean
from grpo_lightning.aggregations.token_mean import TokenMean
from grpo_lightning.environments.scripted import Scripted
from grpo_lightning.errors import NonFiniteError
from grpo_lightning.kl.base import KLTerm
from grpo_lightning.losses.base import LossInputs, LossTerms
from grpo_lightning.losses.clipped import ClippedPolicyLoss
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.policies.lora import LoRA
from grpo_lightning.prompts.records import Records
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.function import FunctionReward
from grpo_lightning.rollout.auxiliary import drawn_indices
from grpo_lightning.settings import EvaluationSet, Generation, Warmup
from grpo_lightning.types import Rollouts
from helpers.hand_loss import HandLoss, HandRow, hand_loss
from helpers.tiny_policy import (
    EOS,
    WideNorms,
    gradients,
    load_policy,
    relative,
    row_distributions,
    save_model,
    small_llama,
)
from helpers.tiny_run import PROMPTS, Watch, fit, make_module, spread


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_model(tmp_path_factory.mktemp("model"), small_llama())


def policy_of(folder: str, **settings: Any) -> CausalLM:
    return WideNorms(model=folder, **{"dtype": "float64", **settings})


def group_advantages(policy: CausalLM, rollouts: Rollouts) -> list[float]:
    """``(r - mean) / (std + 1e-6)`` with the sample's standard deviation, by group."""
    rewards = [spread([policy.decode(actions)])[0] for actions in rollouts.actions.tolist()]
    groups = rollouts.group_R.tolist()
    result = []
    for reward, group in zip(rewards, groups, strict=True):
        own = [each for each, other in zip(rewards, groups, strict=True) if other == group]
        mean = sum(own) / len(own)
        std = (sum((each - mean) ** 2 for each in own) / (len(own) - 1)) ** 0.5
        result.append((reward - mean) / (std + 1e-6))
    return result


def rows_of(policy: CausalLM, rollouts: Rollouts) -> list[HandRow]:
    prompts, actions = rollouts.prompts.tolist(), rollouts.actions.tolist()
    advantages = group_advantages(policy, rollouts)
    groups = rollouts.group_R.tolist()
    return [
        HandRow(group, prompts[prompt], tokens, [True] * len(tokens), advantage)
        for group, prompt, tokens, advantage in zip(
            groups, rollouts.prompt_R.tolist(), actions, advantages, strict=True
        )
    ]


def rollouts_equal(first: Rollouts, second: Rollouts) -> bool:
    same = first.actions.tolist() == second.actions.tolist() and first.prompts.tolist() == second.prompts.tolist()
    return same and torch.equal(first.group_R, second.group_R) and torch.equal(first.finish_R, second.finish_R)


@pytest.mark.parametrize(
    ("aggregation", "tokens"),
    [(TokenMean(), (10_000, 70, 40, 1)), (SequenceMeanTokenMean(), (70,)), (PromptMean(), (25,))],
)
def test_one_update_of_sgd_is_the_gradient_by_hand(
    tmp_path: Path, folder: str, aggregation: Aggregation, tokens: tuple[int, ...]
) -> None:
    counts = []
    for budget in tokens:
        module = make_module(policy_of(folder), micro_batch_tokens=budget, aggregation=aggregation)
        watch = fit(tmp_path, module)
        counts.append(watch.metrics(0)["perf/micro_batches"])
        fresh = load_policy(folder)
        rows = rows_of(fresh, watch.rollouts[0])
        hand_loss(fresh.causal_lm, rows, HandLoss(aggregation.name), on_policy=True).backward()
        wanted = {name: -each for name, each in gradients(fresh).items()}
        assert relative(watch.change(0), wanted) < 1e-10
        size = sum(float((each**2).sum()) for each in wanted.values()) ** 0.5
        assert watch.metrics(0)["optim/grad_norm"] == pytest.approx(size, rel=1e-9)
    assert counts == sorted(set(counts))


def test_updates_of_a_rollout_by_hand(tmp_path: Path, folder: str) -> None:
    """Two updates: the second has ratios other than 1, to the weights before the first."""
    watches = [
        fit(tmp_path, make_module(policy_of(folder), micro_batch_tokens=budget, updates_per_rollout=2), max_steps=2)
        for budget in (10_000, 40)
    ]
    assert relative(watches[0].change(0), watches[1].change(0)) < 1e-10
    assert relative(watches[0].change(1), watches[1].change(1)) < 1e-10
    fresh = load_policy(folder)
    rows = rows_of(fresh, watches[0].rollouts[0])
    with torch.no_grad():
        for row in rows:
            lp = row_distributions(fresh.causal_lm, row.prompt, row.actions)
            row.old = [float(lp[step, token]) for step, token in enumerate(row.actions)]
    groups = sorted({row.group for row in rows})
    left = list(groups)
    for update in range(2):
        fresh.load_state_dict(dict(watches[0].weights[update]))
        wanted = watches[0].change(update)
        found = {}
        for chosen in [[g] for g in left] + [[g, h] for g in left for h in left if g < h]:
            part = [row for row in rows if row.group in chosen]
            hand_loss(fresh.causal_lm, part, HandLoss(high=0.2)).backward()
            found[tuple(chosen)] = relative({name: -each for name, each in gradients(fresh).items()}, wanted)
        best = min(found, key=lambda key: found[key])
        assert found[best] < 1e-10
        left = [group for group in left if group not in best]
    assert left == []


def test_rollouts_do_not_depend_on_the_micro_batches(tmp_path: Path, folder: str) -> None:
    def run(budget: int, seed: int = 0) -> Watch:
        optimizer: Any = lambda parameters: torch.optim.SGD(parameters, lr=0.05)  # noqa: E731
        module = make_module(policy_of(folder), micro_batch_tokens=budget, seed=seed, optimizer=optimizer)
        return fit(tmp_path, module, max_steps=3)

    first, second, other = run(10_000), run(30), run(10_000, seed=1)
    for one, two in zip(first.rollouts, second.rollouts, strict=True):
        assert rollouts_equal(one, two)
    assert len(first.rollouts) == 3
    assert not rollouts_equal(first.rollouts[0], first.rollouts[1])
    assert not rollouts_equal(first.rollouts[0], other.rollouts[0])
    assert bool(first.change(1)["model.lm_head.weight"].any())


def unchanged(before: dict[str, Tensor], after: dict[str, Tensor]) -> bool:
    return all(torch.equal(before[name], after[name]) for name in before)


class Poison(ClippedPolicyLoss):
    """The clipped loss, spoiled at chosen calls: ``nan`` in the value, or ``inf`` in the gradient alone."""

    name = "test_poison"

    def __init__(self, how: str, calls: set[int]) -> None:
        super().__init__()
        self.how, self.calls, self.count = how, calls, 0

    def __call__(self, inputs: LossInputs) -> LossTerms:
        terms = super().__call__(inputs)
        self.count += 1
        if self.count not in self.calls:
            return terms
        if self.how == "nan":
            return LossTerms(terms.terms * torch.nan, terms.step_metrics)
        # The square root of a zero that hangs on the weights: its value is 0, its derivative is infinite.
        zero_S = (inputs.log_probs_S - inputs.log_probs_S.detach()).abs()
        return LossTerms(terms.terms + zero_S.sqrt(), terms.step_metrics)


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.1)


@pytest.mark.parametrize("how", ["nan", "inf"])
def test_non_finite_stops_by_name_before_the_weights_move(tmp_path: Path, folder: str, how: str) -> None:
    module = make_module(policy_of(folder), loss=Poison(how, {2}), micro_batch_tokens=70, optimizer=adamw)
    with pytest.raises(NonFiniteError, match="loss nan" if how == "nan" else "gradient norm (nan|inf)"):
        fit(tmp_path, module)
    fresh = load_policy(folder)
    assert module.trainer.global_step == 0
    assert unchanged(dict(fresh.named_parameters()), dict(module.policy.named_parameters()))


@pytest.mark.parametrize("how", ["nan", "inf"])
@pytest.mark.parametrize("clip", [None, 0.5])
def test_non_finite_is_skipped_as_declared(tmp_path: Path, folder: str, how: str, clip: float | None) -> None:
    """The second of three updates is spoiled; weights, moments and step counts stay, then training goes on."""
    loss = Poison(how, {2})
    module = make_module(policy_of(folder), loss=loss, optimizer=adamw, non_finite="skip")
    watch = fit(tmp_path, module, max_steps=3, gradient_clip_val=clip)
    assert loss.count == 3
    assert [watch.metrics(update)["optim/skipped"] for update in range(3)] == [0.0, 1.0, 0.0]
    assert not unchanged(watch.weights[0], watch.weights[1])
    assert unchanged(watch.weights[1], watch.weights[2])
    assert not unchanged(watch.weights[2], watch.weights[3])
    for index, state in watch.optimizer_states[1].items():
        assert unchanged(state, watch.optimizer_states[2][index])
    assert all(bool(torch.isfinite(each).all()) for each in watch.weights[3].values())


def test_a_gradient_of_0_moves_nothing_whatever_the_moments(tmp_path: Path, folder: str) -> None:
    """Rewards are equal from the second rollout on: no signal, and neither momentum nor weight decay acts."""

    def until_update_1(completions: list[str], update: int) -> list[float]:
        return spread(completions) if update < 1 else [0.3] * len(completions)

    entry = RewardEntry(reward=FunctionReward(function=until_update_1))
    for kl in (None, KLTerm(estimator=create("kl", "k2"), weight=0.0)):
        watch = fit(tmp_path, make_module(policy_of(folder), rewards=[entry], optimizer=adamw, kl=kl), max_steps=3)
        assert not unchanged(watch.weights[0], watch.weights[1])
        for update in (1, 2):
            assert watch.metrics(update)["optim/grad_norm"] == 0.0
            assert watch.metrics(update)["optim/skipped"] == 0.0
            assert watch.metrics(update)["perf/rows_run"] == 0.0
            assert unchanged(watch.weights[update], watch.weights[update + 1])
            for index, state in watch.optimizer_states[1].items():
                assert unchanged(state, watch.optimizer_states[update + 1][index])


@pytest.mark.parametrize("estimator", ["k1", "k3", "exact"])
@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_first_kl_after_a_warm_up_is_exactly_0(
    tmp_path: Path, folder: str, estimator: str, lora: bool, dtype: str
) -> None:
    policy = policy_of(folder, dtype=dtype, lora=LoRA(rank=2) if lora else None)
    module = make_module(
        policy,
        kl=KLTerm(estimator=create("kl", estimator), weight=0.1),
        warmup=Warmup(updates=2, rows=4, learning_rate=0.01),
        optimizer=adamw,
        micro_batch_tokens=45,
    )
    watch = fit(tmp_path, module, max_steps=4)
    assert [report.stage for report in watch.reports] == ["warmup", "warmup", "grpo", "grpo"]
    assert not unchanged(watch.weights[0], watch.weights[1])
    assert watch.metrics(2)["policy/kl"] == 0.0
    assert watch.metrics(2)["train/kl_loss"] == 0.0
    assert watch.metrics(2)["perf/micro_batches"] > 1
    assert watch.metrics(3)["policy/kl"] != 0.0


def test_warm_up_trains_the_mean_over_tokens(tmp_path: Path, folder: str) -> None:
    """Its gradient is that of ``-(1 / T) sum_t log pi``, whatever the micro-batches."""
    changes = []
    for budget in (10_000, 30):
        module = make_module(
            policy_of(folder), warmup=Warmup(updates=1, rows=5, learning_rate=1.0), micro_batch_tokens=budget
        )
        changes.append(fit(tmp_path, module, max_steps=1).change(0))
    assert relative(changes[1], changes[0]) < 1e-10
    fresh = load_policy(folder)
    order = drawn_indices(0, 5, len(PROMPTS), seed=0, stream="warmup")
    assert sorted(set(order)) == sorted(order)
    total, steps = torch.zeros((), dtype=torch.float64), 0
    for index in order:
        prompt, target = fresh.tokenizer.encode(PROMPTS[index]), [*fresh.tokenizer.encode(str(index)), EOS]
        lp = row_distributions(fresh.causal_lm, prompt, target)
        total = total + sum(lp[step, token] for step, token in enumerate(target))
        steps += len(target)
    (-total / steps).backward()
    assert relative(changes[0], {name: -each for name, each in gradients(fresh).items()}) < 1e-10


def test_optimizer_of_grpo_starts_afresh(tmp_path: Path, folder: str) -> None:
    module = make_module(policy_of(folder), warmup=Warmup(updates=2, rows=4), optimizer=adamw)
    watch = fit(tmp_path, module, max_steps=3)
    assert [{float(state["step"]) for state in states.values()} for states in watch.optimizer_states[1:]] == [
        {1.0}, set(), {1.0}
    ]  # fmt: skip


@pytest.mark.parametrize("budget", [10_000, 45])
def test_two_turns_through_the_whole_loop_by_hand(tmp_path: Path, folder: str, budget: int) -> None:
    """What the environment showed has no part in loss, KL, lengths or counts; rows of one and of two turns mix."""
    module = make_module(
        policy_of(folder),
        environment=Scripted(replies=["no: "], max_observation_tokens=3),
        generation=Generation(max_new_tokens=5, stop=list("etaoinshrdlu01234ABCDEFG")),
        kl=KLTerm(estimator=create("kl", "k2"), weight=0.3),
        aggregation=SequenceMeanTokenMean(),
        micro_batch_tokens=budget,
        updates_per_rollout=1,
        epochs_per_rollout=2,
        prompts_per_rollout=2,
    )
    watch = fit(tmp_path, module, max_steps=2)
    rollouts = watch.rollouts[0]
    written = rollouts.trainable_S.tolist()
    assert not all(written)
    assert set(rollouts.turn_S.tolist()) == {0, 1}
    policy = load_policy(folder)
    shown = rollouts.actions.values[~rollouts.trainable_S].tolist()
    assert set(policy.tokenizer.decode(shown).split("no:")) == {""}
    assert watch.rollout_reports[0].table.lengths_R.tolist() == rollouts.lengths_R.tolist()
    assert watch.metrics(0)["perf/steps_run"] == sum(written)

    offsets, last_turns = rollouts.actions.offsets.tolist(), []
    for start, end in pairwise(offsets):
        last = int(rollouts.turn_S[start:end].max())
        chosen = [step for step in range(start, end) if written[step] and int(rollouts.turn_S[step]) == last]
        last_turns.append(policy.decode(rollouts.actions.values[chosen].tolist()))
    rewards = spread(last_turns)
    assert watch.rollout_reports[0].table.rewards_R.tolist() == pytest.approx(rewards)
    rows = []
    for index, (start, end) in enumerate(pairwise(offsets)):
        own = [rewards[i] for i in range(len(rollouts)) if rollouts.group_R[i] == rollouts.group_R[index]]
        mean = sum(own) / len(own)
        std = (sum((each - mean) ** 2 for each in own) / (len(own) - 1)) ** 0.5
        advantage = (rewards[index] - mean) / (std + 1e-6)
        prompt = rollouts.prompts[int(rollouts.prompt_R[index])].tolist()
        rows.append(
            HandRow(
                int(rollouts.group_R[index]), prompt, rollouts.actions[index].tolist(), written[start:end], advantage
            )
        )
    reference = load_policy(folder)
    with torch.no_grad():
        for row in rows:
            lp = row_distributions(reference.causal_lm, row.prompt, row.actions)
            row.old = [float(lp[step, token]) for step, token in enumerate(row.actions)]
    loss = HandLoss("sequence_mean_token_mean", high=0.2, kl="k2", beta=0.3)
    for update in range(2):
        policy.load_state_dict(dict(watch.weights[update]))
        hand_loss(policy.causal_lm, rows, loss, reference=reference.causal_lm).backward()
        wanted = {name: -each for name, each in gradients(policy).items()}
        assert relative(watch.change(update), wanted) < 1e-9
    assert watch.metrics(0)["policy/kl"] == 0.0
    assert watch.metrics(1)["policy/kl"] > 0.0


def test_truncated_rows_are_masked_through_the_whole_loop(tmp_path: Path, folder: str) -> None:
    """They stay in their group's statistics and leave loss and normalisers; the rest is by hand."""
    module = make_module(
        policy_of(folder), generation=Generation(max_new_tokens=4, stop=list("etaoinshrdlu"), mask_truncated=True)
    )
    watch = fit(tmp_path, module)
    policy = load_policy(folder)
    rows = rows_of(policy, watch.rollouts[0])
    truncated = watch.rollouts[0].finish_R.tolist()
    assert 0 < sum(truncated) < len(rows)
    for row, flag in zip(rows, truncated, strict=True):
        row.truncated = bool(flag)
    hand_loss(policy.causal_lm, rows, HandLoss(mask_truncated=True), on_policy=True).backward()
    wanted = {name: -each for name, each in gradients(policy).items()}
    assert relative(watch.change(0), wanted) < 1e-10


def test_a_recorded_run_replayed_is_the_same_run(tmp_path: Path, folder: str) -> None:
    def run(where: Path, **settings: Any) -> Watch:
        rows = [{"prompt": prompt, "answer": "x"} for prompt in PROMPTS]
        data = GRPODataModule(
            train=Records(rows=rows),
            validation={"held_out": EvaluationSet(source=Records(rows=rows[:2]), samples=2)},
            curriculum="sequential",
            validate_every=1,
        )
        optimizer: Any = lambda parameters: torch.optim.SGD(parameters, lr=0.05)  # noqa: E731
        sampler = create("sampler", "top_p", p=0.9)
        module = make_module(policy_of(folder), optimizer=optimizer, sampler=sampler, updates_per_rollout=3, **settings)
        watch = fit(where, module, max_steps=6, data=data)
        watch.evaluations = [dict(report.metrics) for report in module.evaluation_reports]  # type: ignore[attr-defined]
        return watch

    recorded = run(tmp_path / "first", record=True)
    files = sorted(path.name for path in (tmp_path / "first" / "recorded").iterdir())
    assert [name for name in files if name.startswith("train")] == [
        "train-000000-000000-0-0-0.pt",
        "train-000001-000000-0-0-3.pt",
    ]
    assert len([name for name in files if name.startswith("validation%2Fheld_out")]) == 7
    replayed = run(tmp_path / "second", engine=create("engine", "replay", path=str(tmp_path / "first" / "recorded")))
    for first, second in zip(recorded.weights, replayed.weights, strict=True):
        assert unchanged(first, second)
    for one, two in zip(recorded.rollouts, replayed.rollouts, strict=True):
        assert torch.equal(one.behaviour_log_probs_S, two.behaviour_log_probs_S)
        assert one.support is not None
        assert two.support is not None
        assert torch.equal(one.support.values, two.support.values)
        assert torch.equal(one.support.offsets, two.support.offsets)
        assert torch.equal(one.version_R, two.version_R)
    assert recorded.evaluations == replayed.evaluations  # type: ignore[attr-defined]


def test_ratios_of_unmoved_weights_are_exactly_1_in_every_update_of_a_rollout(tmp_path: Path, folder: str) -> None:
    """A learning rate that moves nothing: old log-probabilities are taken in the company in which rows are trained."""
    still: Any = lambda parameters: torch.optim.SGD(parameters, lr=0.0)  # noqa: E731
    module = make_module(
        policy_of("embedded://tiny-llama", dtype="float32"),
        optimizer=still, updates_per_rollout=2, micro_batch_tokens=300, group_size=8, prompts_per_rollout=5,
        generation=Generation(max_new_tokens=30), kl=KLTerm(estimator=create("kl", "k1"), weight=0.1),
    )  # fmt: skip
    watch = fit(tmp_path, module, max_steps=2)
    for update in range(2):
        metrics = watch.metrics(update)
        assert (metrics["policy/ratio_min"], metrics["policy/ratio_max"], metrics["policy/kl"]) == (1.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [
        ("bf16-mixed", "float32"),
        ("32-true", "bfloat16"),
        pytest.param("bf16-true", "bfloat16"),
        pytest.param("64-true", "float64"),
    ],
)
def test_sampling_scoring_and_training_share_a_precision(
    tmp_path: Path, folder: str, precision: Any, dtype: str
) -> None:
    module = make_module(
        policy_of(folder, dtype=dtype),
        kl=KLTerm(estimator=create("kl", "exact"), weight=0.1),
        warmup=Warmup(updates=1, rows=4, learning_rate=0.01),
        optimizer=adamw,
    )
    watch = fit(tmp_path, module, max_steps=3, precision=precision)
    assert watch.metrics(1)["policy/kl"] == 0.0
    # Decoding and scoring add up in different orders, which shows in narrow types.
    assert abs(watch.metrics(1)["policy/sampler_kl"]) < 0.02
    assert watch.metrics(2)["policy/kl"] > 0.0
