from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from grpo_lightning.compat import PRESETS, Preset, compat
from grpo_lightning.errors import ConfigError
from helpers.recorded_update import RecordedRow, component, objective_of, train

CHOSEN: dict[str, dict[str, Any]] = {
    "nemo_rl": {"advantage": {"name": "group_norm", "ddof": 1, "eps": 1e-6}},
}
"""What a person has to write with a preset."""


def settings_of(name: str) -> dict[str, Any]:
    chosen = CHOSEN.get(name, {})
    return compat(name, chosen) | chosen


def at(settings: Any, path: str) -> Any:
    for key in path.split("."):
        settings = settings[key]
    return settings


@pytest.mark.parametrize("name", PRESETS)
def test_its_account_is_what_it_sets(name: str) -> None:
    preset = PRESETS[name]
    for row in preset.follows:
        for path, value in row.ours.items():
            assert at(preset.settings, path) == value, f"{row.setting}: {path}"
    told = {path.split(".")[0] for row in preset.follows for path in row.ours}
    assert told == set(preset.settings)


@pytest.mark.parametrize("name", PRESETS)
def test_its_account_is_complete_sentences(name: str) -> None:
    preset: Preset = PRESETS[name]
    assert preset.version
    assert len({row.setting for row in preset.follows}) == len(preset.follows)
    for row in preset.differs:
        assert row.theirs
        assert row.ours
        assert row.why


@pytest.mark.parametrize("name", PRESETS)
def test_components_of_a_preset_build_and_go_together(name: str) -> None:
    settings = settings_of(name)
    assert component("advantage", settings["advantage"]).name == "group_norm"
    assert component("sampler", settings["sampler"]).explores
    assert [component("transform", each).name for each in settings.get("transforms", [])] in ([], ["clip"])
    objective = objective_of(settings)
    objective.check()
    assert objective.needs_reference == (name in ("openrlhf", "nemo_rl"))


def test_every_caller_gets_a_copy() -> None:
    compat("trl")["advantage"]["eps"] = 1.0
    assert compat("trl")["advantage"]["eps"] == 1e-4


def test_unknown_name() -> None:
    with pytest.raises(ConfigError) as raised:
        compat("nemo-rl")
    assert str(raised.value) == "model.compat: 'nemo-rl' is no preset; did you mean 'nemo_rl'?"
    with pytest.raises(ConfigError, match="known: nemo_rl, openrlhf, trl, verl"):
        compat("areal")


@pytest.mark.parametrize("written", [None, {}, {"advantage": None}, {"loss": "clipped"}])
def test_nemo_rl_asks_for_an_advantage(written: dict[str, Any] | None) -> None:
    with pytest.raises(ConfigError) as raised:
        compat("nemo_rl", written)
    message = str(raised.value)
    assert message.startswith("model.compat: 'nemo_rl' leaves model.advantage open: ")
    assert "leave-one-out" in message
    assert "write model.advantage: leave_one_out" in message


@pytest.mark.parametrize("advantage", ["leave_one_out", {"name": "group_norm", "ddof": 1, "eps": 1e-6}])
def test_nemo_rl_with_an_advantage(advantage: Any) -> None:
    settings = compat("nemo_rl", {"advantage": advantage})
    assert "advantage" not in settings
    assert settings["kl"]["weight"] == 0.01


def test_the_deviation_of_the_others_jumps() -> None:
    """Why it is refused: the numbers that the preset tells."""

    def first(rewards: list[float]) -> float:
        others = rewards[1:]
        mean = sum(others) / len(others)
        std = math.sqrt(sum((each - mean) ** 2 for each in others) / (len(others) - 1))
        return (rewards[0] - mean) / (std + 1e-6) if std > 0 else rewards[0] - mean

    assert first([1.0, 0.0, 0.0, 0.0]) == 1.0
    assert round(first([1.0, 0.0, 0.0, 1e-3])) == 1728
    assert "it gets 1728" in PRESETS["nemo_rl"].differs[0].why


def test_presets_are_read_without_torch() -> None:
    code = "import sys, grpo_lightning.compat as c; c.compat('trl'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# The numbers of each system, from its formulae in plain loops.

Term = Callable[[Tensor, float, float, float], Tensor]
"""From (current log-probability, old one, reference's, advantage) to a step's term."""


def clipped(lp: Tensor, old: float, advantage: float, *, dual: float | None, limit: float | None) -> Tensor:
    log_ratio = lp - old
    if limit is not None:
        log_ratio = log_ratio.clamp(-limit, limit)
    ratio = log_ratio.exp()
    loss = torch.maximum(-advantage * ratio, -advantage * ratio.clamp(0.8, 1.2))
    if dual is not None and advantage < 0:
        loss = torch.minimum(loss, torch.tensor(-advantage * dual, dtype=torch.float64))
    return loss


def k3(lp: Tensor, reference: float) -> Tensor:
    return (reference - lp).exp() - 1 - (reference - lp)


TERMS: dict[str, Term] = {
    "verl": lambda lp, old, reference, advantage: clipped(lp, old, advantage, dual=3.0, limit=20.0),
    "openrlhf": lambda lp, old, reference, advantage: (
        clipped(lp, old, advantage, dual=None, limit=20.0) + 1e-3 * k3(lp, reference).clamp(-10, 10)
    ),
    "nemo_rl": lambda lp, old, reference, advantage: (
        clipped(lp, old, advantage, dual=None, limit=None) + 0.01 * (lp - old).exp() * k3(lp, reference)
    ),
}
EPS = {"verl": 1e-6, "openrlhf": 1e-9, "nemo_rl": 1e-6}


def example(on_policy: bool) -> list[RecordedRow]:
    """Two groups; the ratios of the last row are 4 and e^25, and its reference is e^4 above the policy."""
    rows = []
    for group, rewards in enumerate([[1.0, 0.0, 0.0, 2.0], [0.5, 0.25, 0.75, 0.0]]):
        for member, reward in enumerate(rewards):
            length = 1 + (group + 2 * member) % 4
            current = [-0.3 - 0.2 * step - 0.1 * member for step in range(length)]
            old = [each + 0.15 * (-1) ** step * member for step, each in enumerate(current)]
            reference = [each + 0.3 - 0.2 * step for step, each in enumerate(current)]
            rows.append(RecordedRow(group, [reward], current, old, old, reference, [1] * length))
    last = rows[-1]
    last.current, last.trainable = [-0.5, -1.0, -5.0], [1, 1, 1]
    last.old = [-0.5 - math.log(4.0), -26.0, -5.0]
    last.reference = [-0.5, -1.0, -1.0]
    for row in rows:
        row.old = row.current if on_policy else row.old
        row.sampling = row.old
    return rows


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("on_policy", [True, False])
def test_an_update_is_that_of_the_system(name: str, on_policy: bool) -> None:
    rows = example(on_policy)
    found = train(settings_of(name), rows, on_policy=on_policy)
    leaves = [[torch.tensor(each, dtype=torch.float64, requires_grad=True) for each in row.current] for row in rows]
    total, steps = torch.zeros((), dtype=torch.float64), sum(len(row.current) for row in rows)
    for index, row in enumerate(rows):
        rewards = [float(other.rewards[0] or 0.0) for other in rows if other.group == row.group]
        mean = sum(rewards) / len(rewards)
        std = math.sqrt(sum((each - mean) ** 2 for each in rewards) / (len(rewards) - 1))
        advantage = (float(row.rewards[0] or 0.0) - mean) / (std + EPS[name])
        assert found.advantages[index] == pytest.approx(advantage, rel=1e-12)
        for step, leaf in enumerate(leaves[index]):
            total = total + TERMS[name](leaf, row.old[step], row.reference[step], advantage) / steps
    wanted = torch.autograd.grad(total, [leaf for row in leaves for leaf in row])
    assert found.value == pytest.approx(total.item(), rel=1e-12)
    for got, gradient in zip(found.gradient, wanted, strict=True):
        assert got == pytest.approx(gradient.item(), rel=1e-10, abs=1e-14)


def test_openrlhf_holds_advantages_at_ten() -> None:
    rows = [RecordedRow(0, [float(index == 0)], [-1.0], [-1.0], [-1.0], [-1.0], [1]) for index in range(128)]
    plain = 127 / math.sqrt(128)
    assert plain > 10
    assert train(settings_of("openrlhf"), rows).advantages[0] == 10.0
    assert train(settings_of("verl"), rows).advantages[0] == pytest.approx(plain, rel=2e-5)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("reward", [0.1, 0.7])
def test_no_preset_makes_signal_of_rounding(name: str, reward: float) -> None:
    rows = [RecordedRow(0, [reward], [-1.0], [-1.2], [-1.2], [-1.1], [1]) for _ in range(7)]
    assert train(settings_of(name), rows).advantages == [0.0] * 7


@pytest.mark.parametrize(("name", "eps", "told"), [("verl", 1e-6, "0.06"), ("openrlhf", 1e-9, "0.9")])
def test_the_noise_elsewhere_is_of_the_size_that_is_told(name: str, eps: float, told: str) -> None:
    rewards = torch.full((7,), 0.7)
    noise = abs(float((rewards[0] - rewards.mean()) / (rewards.std() + eps)))
    assert any(f"advantages of {told}" in row.theirs for row in PRESETS[name].differs)
    assert noise == pytest.approx(float(told), rel=0.1)
