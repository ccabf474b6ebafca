"""The module that a configuration describes, without its weights, and its data."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

from jsonargparse import ArgumentError
from lightning.pytorch.cli import LightningArgumentParser

from grpo_lightning.cli.arguments import Arguments
from grpo_lightning.cli.configuration import Configuration, configure
from grpo_lightning.cli.lightning_cli import our_error
from grpo_lightning.cli.locate import default_config, plan
from grpo_lightning.cli.noise import quiet_lightning
from grpo_lightning.cli.run import TARGETS
from grpo_lightning.data.datamodule import GRPODataModule
from grpo_lightning.module import GRPOModule
from grpo_lightning.registry import registry


def configured_module(arguments: Arguments, *, complete: bool = False) -> tuple[GRPOModule, Configuration]:
    """Build the module of a command line for ``fit``.

    Args:
        arguments: The words of ``fit``.
        complete: Take what is trained, on which data and how long from the embedded run where it is not said.

    Raises:
        ConfigError: If the configuration is wrong, as ``fit`` would say it.
    """
    quiet_lightning()
    for path in arguments.configs:
        sys.path.append(str(path.absolute().parent))
    config = plan("fit", arguments).config
    configuration = configure(_completed(config) if complete else config, "fit", TARGETS, registry())
    return _instance(GRPOModule, "model", configuration), configuration


def configured_data(module: GRPOModule, configuration: Configuration) -> GRPODataModule:
    """The data of a configuration, read and encoded by the policy of its module, which is prepared for it.

    Raises:
        ConfigError: If the configuration is wrong, as ``fit`` would say it.
        DataError: If the data are.
    """
    data: GRPODataModule = _instance(GRPODataModule, "data", configuration)
    data.trainer = SimpleNamespace(lightning_module=module)  # type: ignore[assignment]
    data.setup("fit")
    return data


def _instance(kind: Any, name: str, configuration: Configuration) -> Any:
    parser = LightningArgumentParser(exit_on_error=False)
    parser.add_lightning_class_args(kind, name)
    try:
        parsed = parser.parse_object({name: configuration.config[name]})
        return parser.instantiate_classes(parsed)[name]
    except (ArgumentError, ValueError, TypeError) as error:
        raise our_error(error) from error


def _completed(config: dict[str, Any]) -> dict[str, Any]:
    embedded = default_config()
    completed = {**config}
    for section, settings in (("trainer", ("max_steps",)), ("model", ("policy", "rewards")), ("data", ("train",))):
        given = config.get(section)
        if given is None or isinstance(given, dict):
            missing = {name: embedded[section][name] for name in settings if name not in (given or {})}
            completed[section] = {**missing, **(given or {})}
    return completed
