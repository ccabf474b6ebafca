"""Plans of a model whose sizes are added up by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grpo_lightning.planning import Plan, changes, make_plan
from grpo_lightning.planning.choice import choice_of
from grpo_lightning.planning.page import advice, page
from grpo_lightning.planning.passes import ROLLOUT, SCORING, STEP, UPDATE
from grpo_lightning.planning.plan import GIB, usable
from grpo_lightning.planning.rows import Lengths, batches
from grpo_lightning.policies.lora import LoRA
from helpers.hand_sized_model import LAYER, OUTSIDE, PARAMETERS, TENSORS, choice, module

LENGTHS = Lengths(prompt=5, completion=4, group_size=3, groups=2, updates=1)
WHOLE = 4 * PARAMETERS
MOMENTS = 2 * WHOLE + 4 * TENSORS
"""Two of each parameter, and a count of steps for each tensor."""


def plan(path: Path, settings: dict[str, Any] | None = None, **changed: Any) -> Plan:
    return make_plan(module(path, **(settings or {})), choice(**changed), LENGTHS)


def test_one_process_holds_everything(tmp_path: Path) -> None:
    found = plan(tmp_path)
    whole = found.counted.sizes.whole
    assert (whole.parameters, whole.trained, PARAMETERS) == (1992, 1992, 1992)
    for phase in (ROLLOUT, UPDATE, STEP):
        parts = found.phases[phase]
        assert (parts["weights"], parts["optimizer"]) == (WHOLE + ROTARY, MOMENTS)
    assert found.phases[ROLLOUT]["gradients"] == WHOLE  # until the next update's first backward pass
    assert SCORING not in found.phases  # one update a rollout, no reference


ROTARY = 2 * 2 * 4
"""Inverse frequencies of rotary positions, half a head's depth of float32, and the model's original copy of them."""


def test_cache_of_contexts_and_rows(tmp_path: Path) -> None:
    # 2 contexts of 5 tokens once, and 6 rows of 4 tokens, of which the last is not run; 2 layers of one key head of
    # depth 4 keep a key and a value of float32.
    assert plan(tmp_path).phases[ROLLOUT]["cache"] == (2 * 5 + 6 * 3) * 2 * 2 * 4 * 4
    # With room for 3 rows in flight, one group at a time.
    assert plan(tmp_path, batch_rows=3).phases[ROLLOUT]["cache"] == (5 + 3 * 3) * 2 * 2 * 4 * 4


def test_ddp_holds_a_second_copy_of_gradients(tmp_path: Path) -> None:
    parts = plan(tmp_path, processes=2, strategy="ddp").phases[STEP]
    assert (parts["weights"], parts["gradients"], parts["gradient buckets"]) == (WHOLE + ROTARY, WHOLE, WHOLE)
    assert parts["optimizer"] == MOMENTS


def test_fsdp2_holds_its_share_and_what_runs(tmp_path: Path) -> None:
    found = plan(tmp_path, processes=2, strategy="fsdp2")
    assert found.phases[STEP]["weights"] == found.phases[STEP]["gradients"] == WHOLE // 2
    assert found.phases[STEP]["optimizer"] == MOMENTS // 2
    assert found.phases[ROLLOUT]["weights"] == WHOLE // 2 + WHOLE
    running = 4 * (OUTSIDE + 2 * LAYER)
    assert found.phases[UPDATE]["weights"] == found.phases[UPDATE]["gradients"] == WHOLE // 2 + running
    apart = plan(tmp_path, processes=2, strategy="fsdp2", unshard_for_rollout=False)
    assert apart.phases[ROLLOUT]["weights"] == WHOLE // 2 + running


def test_adapters_alone_are_trained(tmp_path: Path) -> None:
    found = plan(tmp_path, lora=LoRA(rank=2))
    # Two factors of rank 2 for each of 8x8, 8x4, 8x4, 8x8 and three of 8x16, in 2 layers.
    adapters = 2 * 2 * ((8 + 8) + (8 + 4) + (8 + 4) + (8 + 8) + 3 * (8 + 16))
    assert found.counted.sizes.whole.trained == adapters == 512
    parts = found.phases[STEP]
    assert parts["weights"] == WHOLE + ROTARY + 4 * adapters
    assert (parts["gradients"], parts["optimizer"]) == (4 * adapters, 2 * 4 * adapters + 4 * 2 * 7 * 2)


def test_narrow_weights(tmp_path: Path) -> None:
    parts = plan(tmp_path, precision="bf16-true").phases[STEP]
    assert (parts["gradients"], parts["optimizer"]) == (WHOLE // 2, WHOLE + 4 * TENSORS)
    sampling = plan(tmp_path, precision="bf16-mixed").phases[ROLLOUT]["sampling weights"]
    assert sampling >= WHOLE // 2


def test_a_reference_is_a_copy(tmp_path: Path) -> None:
    from grpo_lightning import create
    from grpo_lightning.kl.base import KLTerm

    term = KLTerm(estimator=create("kl", "k2"), weight=0.1, where="loss")
    found = plan(tmp_path, {"kl": term})
    assert found.phases[STEP]["reference"] >= WHOLE
    assert found.phases[SCORING]["activations"] > 0


def test_micro_batches_by_hand() -> None:
    lengths = Lengths(prompt=10, completion=5, group_size=4, groups=6, updates=1)
    found = batches(lengths, 2, 30, shared=True)
    # A group is 10 + 4 * 5 = 30 tokens; a process has 3 of them. As many micro-batches as rows of 15 two by two.
    assert (found.tokens, len(found.largest), found.most) == (30, 4, 6)
    assert not found.alone
    # With room for all of its three groups there is one micro-batch, although rows one by one could need more.
    assert batches(lengths, 2, 90, shared=True).alone
    assert not batches(lengths, 2, 89, shared=True).alone
    apart = batches(lengths, 2, 30, shared=False)
    assert (apart.tokens, len(apart.largest), apart.most) == (30, 2, 6)


def test_checkpointing_keeps_less(tmp_path: Path) -> None:
    kept, again = (plan(tmp_path, activation_checkpointing=on).phases[UPDATE]["activations"] for on in (False, True))
    assert again < kept


def test_what_to_change(tmp_path: Path) -> None:
    made = module(tmp_path)
    start = make_plan(made, choice(processes=2, strategy="ddp"), LENGTHS)
    found = changes(made, start, lambda other: other.peak_bytes < start.peak_bytes // 2)
    peaks = [change.plan.peak_bytes for change in found]
    singles = [change for change in found if " --" not in change.settings]
    assert [change.plan.peak_bytes for change in singles] == sorted(change.plan.peak_bytes for change in singles)
    assert max(peaks) < start.peak_bytes
    named = {change.settings: change.plan for change in singles}
    assert named["--trainer.strategy fsdp2"].choice.strategy == "fsdp2"
    # bfloat16 halves weights, gradients, buckets and moments.
    assert named["--trainer.precision bf16-true"].phases[STEP]["gradients"] == WHOLE // 2
    # Adapters of rank 16 are larger than this model: no advice.
    assert "--model.policy.lora.rank 16" not in named
    text = advice(found, 1.0)
    assert "--trainer.strategy fsdp2" in text
    assert "does not fit" in text


def test_room_on_a_gpu() -> None:
    # 80 GiB less 0.75 for the device, of which 8 % are not to be used.
    assert usable(80 * GIB) / GIB == pytest.approx((80 - 0.75) * 0.92)
    assert usable(0.5 * GIB) == 0.0


def test_the_page(tmp_path: Path) -> None:
    text = page(plan(tmp_path), "What it needs", 80 * GIB)
    assert "parameters   1,992, of which 1,992 are trained" in text
    assert "fits into 80 GiB a GPU" in text
    assert "a rollout samples     24 in 6 rows, after prompts of up to 5" in text


@pytest.mark.parametrize(
    ("strategy", "devices", "expected"),
    [
        ("auto", 1, (1, "auto")),
        ("auto", 4, (4, "ddp")),
        ("ddp_find_unused_parameters_true", 2, (2, "ddp")),
        ({"class_path": "grpo_lightning.strategies.fsdp2.FSDP2Strategy", "init_args": {}}, 2, (2, "fsdp2")),
        ({"class_path": "lightning.pytorch.strategies.DDPStrategy"}, 2, (2, "ddp")),
    ],
)
def test_which_strategy_is_meant(tmp_path: Path, strategy: Any, devices: int, expected: tuple[int, str]) -> None:
    found = choice_of(module(tmp_path), {"strategy": strategy, "devices": devices}, None)
    assert (found.processes, found.strategy) == expected


def test_changes_are_combined_where_none_suffices(tmp_path: Path) -> None:
    made = module(tmp_path)
    start = make_plan(made, choice(processes=2, strategy="fsdp2"), LENGTHS)
    *singles, together = changes(made, start, lambda other: False)
    assert len(singles) >= 2
    assert together.plan.peak_bytes < min(change.plan.peak_bytes for change in singles)
    # What it names is what it was planned with.
    assert ("--trainer.precision bf16-true" in together.settings) == (together.plan.choice.precision == "bf16-true")
    assert ("unshard_for_rollout false" in together.settings) == (not together.plan.choice.unshard_for_rollout)
    # The first that suffices ends the search.
    assert len(changes(made, start, lambda other: other.peak_bytes < start.peak_bytes)) == len(singles)
