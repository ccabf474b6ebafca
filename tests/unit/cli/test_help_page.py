from __future__ import annotations

from dataclasses import fields

from lightning.pytorch import Trainer

from grpo_lightning.cli.configuration import Targets
from grpo_lightning.cli.help_page import help_page
from grpo_lightning.cli.run_settings import RunSettings
from grpo_lightning.cli.schema import parameters
from helpers.configured_classes import Data, Model, built_ins

TARGETS = Targets(Trainer, Model, Data)


def page(command: str) -> list[str]:
    return help_page(command, TARGETS, built_ins()).splitlines()


def test_every_setting_is_there() -> None:
    shown = {line.split()[0] for line in page("fit") if line.startswith("  --")}
    assert {f"--model.{name}" for name in parameters(Model)} <= shown
    assert {f"--data.{name}" for name in parameters(Data)} <= shown
    assert {"--model.generation.max_new_tokens", "--model.rewards.0.weight", "--data.validation.NAME.samples"} <= shown


def test_components_are_named() -> None:
    assert "      sampler: greedy, min_p, temperature, top_k, top_p" in page("fit")


def test_settings_of_other_commands_are_left_out() -> None:
    def run_settings(command: str) -> set[str]:
        names = {item.name for item in fields(RunSettings)}
        return {word.removeprefix("--") for line in page(command) for word in line.split()[:1]} & names

    assert {"resume", "profile"} <= run_settings("fit")
    assert "output" not in run_settings("fit")
    assert "output" in run_settings("predict")
    assert not {"resume", "profile"} & run_settings("test")
