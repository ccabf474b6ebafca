"""``export``: a checkpoint in Hugging Face format."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from grpo_lightning.cli.arguments import parse_arguments
from grpo_lightning.errors import ConfigError

_PREFIX = "policy."


def add_arguments(parser: ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("--run", metavar="FOLDER", help="run folder; by default the newest run")
    parser.add_argument("--ckpt_path", metavar="FILE", help="checkpoint; by default the run's best, else its last")
    parser.add_argument("--runs_folder", metavar="FOLDER", help="where runs are; by default runs")
    parser.add_argument("--output", metavar="FOLDER", help="folder to write; by default <run>/export")


def run(arguments: Namespace) -> int:
    """write the newest run's model in Hugging Face format: weights, tokenizer, chat template, generation config"""
    # Imported here: other light commands need neither torch nor a parser of classes.
    from grpo_lightning.cli.locate import plan

    given = ("run", "ckpt_path", "runs_folder")
    words = [f"--{name}={value}" for name in given if (value := getattr(arguments, name)) is not None]
    found = plan("export", parse_arguments(words))
    assert found.folder is not None
    assert found.checkpoint is not None
    folder = Path(arguments.output) if arguments.output else found.folder.path / "export"
    if folder.exists() and any(folder.iterdir()) and not (folder / "config.json").exists():
        raise ConfigError("output", str(folder), "holds other files", "name an empty or new folder")
    policy = load_policy(found.config, found.checkpoint)
    policy.export(folder)
    sys.stdout.write(f"exported {found.checkpoint} to {folder}\n")
    return 0


def load_policy(config: dict[str, Any], checkpoint: Path) -> Any:
    """The policy of a run's saved configuration, with the weights of one of its checkpoints, on the CPU."""
    from jsonargparse import ArgumentParser as ClassParser

    from grpo_lightning.policies.base import Policy
    from grpo_lightning.strategies.checkpoint_files import CheckpointFiles

    parser = ClassParser(exit_on_error=False)
    parser.add_subclass_arguments(Policy, "policy")
    policy = parser.instantiate_classes(parser.parse_object({"policy": config["model"]["policy"]})).policy
    policy.prepare()
    policy.load()
    state = CheckpointFiles().load_checkpoint(checkpoint, weights_only=True)["state_dict"]
    policy.load_state_dict(
        {name.removeprefix(_PREFIX): value for name, value in state.items() if name.startswith(_PREFIX)}
    )
    return policy
