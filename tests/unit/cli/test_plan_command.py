"""The command ``plan``: its exit codes, its advice, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grpo_lightning.cli import plan
from grpo_lightning.cli.arguments import parse_arguments
from grpo_lightning.errors import ConfigError
from helpers.hand_sized_model import PARAMETERS, folder
from helpers.tiny_run import PROMPTS


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    settings = {
        "trainer": {"max_steps": 2},
        "model": {
            "policy": {"name": "causal_lm", "model": str(folder(tmp_path / "model"))},
            "rewards": ["exact_match"],
            "group_size": 4,
            "prompts_per_rollout": 4,
            "generation": {"max_new_tokens": 8},
        },
        "data": {"train": {"name": "records", "rows": [{"prompt": each, "answer": "1"} for each in PROMPTS]}},
    }
    (tmp_path / "run.yaml").write_text(json.dumps(settings))
    return ["--config", str(tmp_path / "run.yaml")]


def test_it_fits(words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grpo_lightning.policies.loading.load_model", None)  # nothing may load weights
    assert plan.run(words) == 0
    said = capsys.readouterr().out
    assert f"parameters   {PARAMETERS:,}, of which {PARAMETERS:,} are trained" in said
    assert "fits into 80 GiB a GPU" in said
    # 16 rows of 8 tokens, as 4 prompts have 4 members each.
    assert "a rollout samples     128 in 16 rows" in said
    assert "What to change" not in said


def test_it_does_not_fit_and_says_what_would(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert plan.run([*words, "--gpus=2", "--gpu-memory", "0.5"]) == 1  # less than a device's context
    said = capsys.readouterr().out
    assert "processes    2, strategy ddp" in said
    assert "--trainer.strategy fsdp2" in said.partition("What to change")[2]


@pytest.mark.parametrize(
    ("more", "setting"),
    [
        (["--gpus", "0"], "gpus"),
        (["--gpus", "1.5"], "gpus"),
        (["--gpu-memory", "much"], "gpu-memory"),
        (["--gpu-memory=-1"], "gpu-memory"),
        (["--trainer.strategy", "xla"], "trainer.strategy"),
        (["--model.group_size", "0"], "model.group_size"),
    ],
)
def test_what_is_wrong_is_named(words: list[str], more: list[str], setting: str) -> None:
    with pytest.raises(ConfigError) as error:
        plan.run([*words, *more])
    assert error.value.setting == setting


def test_the_embedded_run() -> None:
    found, module = plan.planned(parse_arguments(["--trainer.devices=3", "--trainer.strategy=ddp"]), None)
    assert (found.choice.processes, found.choice.strategy) == (3, "ddp")
    assert found.counted.sizes.whole.parameters > 0
    assert module.policy.model is None  # type: ignore[attr-defined]
