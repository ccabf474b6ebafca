from __future__ import annotations

from typing import Any

import pytest
from lightning.pytorch import Trainer

from grpo_lightning import hookimpl
from grpo_lightning.cli.configuration import Targets, configure
from grpo_lightning.cli.run_settings import EarlyStoppingSettings, WandbSettings
from grpo_lightning.errors import ConfigError
from grpo_lightning.pluginmanager import Plugins
from grpo_lightning.registry import Registry
from helpers.configured_classes import Data, Model, built_ins

TARGETS = Targets(Trainer, Model, Data)


def raw(**changes: Any) -> dict[str, Any]:
    config = {
        "trainer": {"max_steps": 3},
        "model": {"policy": {"name": "causal_lm", "model": "embedded://tiny-llama"}, "rewards": ["exact_match"]},
        "data": {"train": "sorting"},
    }
    return {**config, **changes}


def configured(command: str = "fit", registry: Registry | None = None, **changes: Any) -> Any:
    return configure(raw(**changes), command, TARGETS, registry or built_ins())


def fault(command: str = "fit", **changes: Any) -> str:
    with pytest.raises(ConfigError) as raised:
        configured(command, **changes)
    return str(raised.value)


def test_every_section_is_resolved() -> None:
    found = configured(trainer={"max_steps": 3, "callbacks": ["sample_log", {"name": "LearningRateMonitor"}]})
    assert found.config["data"]["train"]["class_path"] == "grpo_lightning.prompts.sorting.Sorting"
    assert [each["class_path"] for each in found.config["trainer"]["callbacks"]] == [
        "grpo_lightning.callbacks.sample_log.SampleLog",
        "lightning.pytorch.callbacks.lr_monitor.LearningRateMonitor",
    ]


def test_the_given_configuration_is_left_as_it_was() -> None:
    given = raw()
    configure(given, "fit", TARGETS, built_ins())
    assert given == raw()


def test_settings_of_the_run() -> None:
    found = configured(seed_everything=7, wandb={"project": "p"}, early_stopping={"patience": 1}, save_every=9).settings
    assert found.seed_everything == 7
    assert found.save_every == 9
    assert found.wandb == WandbSettings(project="p")
    assert found.early_stopping == EarlyStoppingSettings(patience=1)
    assert configured(wandb=True).settings.wandb is True


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"modl": {}}, "modl: {} is no setting; did you mean 'model'?"),
        ({"model": 3}, "model: 3 is no group of settings; write --model.setting VALUE"),
        ({"trainer": {"max_step": 3, "max_steps": 3}},
         "trainer.max_step: 3 is no setting; did you mean 'max_steps' or 'max_time' or 'min_steps'?"),
        ({"trainer": {}}, "trainer.max_steps: None is no number of updates; set how many to train, 1 or more"),
        ({"trainer": {"max_steps": 0}},
         "trainer.max_steps: 0 is no number of updates; set how many to train, 1 or more"),
        ({"trainer": {"max_steps": "many"}}, "trainer.max_steps: 'many' has the wrong type; set an integer"),
        ({"trainer": {"max_steps": 3, "max_epochs": 2}},
         "trainer.max_epochs: 2 has no meaning: a run counts updates; set trainer.max_steps"),
        ({"trainer": {"max_steps": 3, "accumulate_grad_batches": 4}},
         "trainer.accumulate_grad_batches: 4 cannot be set by hand; "
         "set model.micro_batch_tokens, from which it follows"),
        ({"trainer": {"max_steps": 3, "default_root_dir": "x"}},
         "trainer.default_root_dir: 'x' is not used; set runs_folder or run_folder"),
        ({"trainer": {"max_steps": 3, "callbacks": "progres_line"}},
         "trainer.callbacks: 'progres_line' is no known callback; did you mean 'progress_line'?"),
        ({"wandb": {"ofline": True}}, "wandb.ofline: True is no setting; did you mean 'offline'?"),
        ({"seed_everything": True}, "seed_everything: True has the wrong type; set an integer"),
        ({"save_every": 0}, "save_every: 0 is outside [1, inf]; set a value inside that range"),
        ({"early_stopping": {"patience": -1}},
         "early_stopping.patience: -1 is outside [0, inf]; set a value inside that range"),
        ({"run": "runs/001"}, "run: 'runs/001' has no meaning for fit; it belongs to validate, test, predict"),
        ({"ckpt_path": "x"}, "ckpt_path: 'x' has no meaning for fit; it belongs to validate, test, predict "
         "(to continue a run: --resume)"),
    ],
)  # fmt: skip
def test_faults(changes: dict[str, Any], message: str) -> None:
    assert fault(**changes) == message


def test_settings_of_other_commands() -> None:
    assert fault("test", resume="auto") == "resume: 'auto' has no meaning for test; it belongs to fit"
    assert fault("test", output="x") == "output: 'x' has no meaning for test; it belongs to predict"
    assert configured("test", trainer={}).settings.run is None, "only fit counts updates"


def test_what_lightning_saves_passes() -> None:
    configured(trainer={"max_steps": 3, "max_epochs": -1, "accumulate_grad_batches": 1, "default_root_dir": None})


class _Plugin:
    """Changes a configuration, with a short name."""

    @staticmethod
    @hookimpl
    def grpo_configure(config: dict[str, Any]) -> None:
        assert config["model"]["loss"]["class_path"].endswith("ClippedPolicyLoss"), "names are resolved before"
        config["model"]["advantage"] = "leave_one_out"


def test_plugins_may_change_a_configuration() -> None:
    plugins = Plugins([])
    plugins.register("changer", _Plugin, "grpo-lightning-changer", "1.0")
    found = configured(registry=Registry(plugins))
    assert found.config["model"]["advantage"]["class_path"] == "grpo_lightning.advantages.leave_one_out.LeaveOneOut"
