"""Which configuration, run folder and checkpoint a command works with."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from grpo_lightning.cli.arguments import Arguments
from grpo_lightning.cli.merge import apply_setting, deep_merge
from grpo_lightning.cli.run_folder import (
    ENVIRONMENT,
    RunFolder,
    claim_run_folder,
    create_run_folder,
    inherited_run_folder,
    newest_run,
    run_of_checkpoint,
)
from grpo_lightning.cli.run_settings import RunSettings
from grpo_lightning.cli.yaml_text import load_file
from grpo_lightning.compat import compat
from grpo_lightning.errors import ConfigError

AUTO = "auto"
"""In place of a checkpoint: the last one there is, or a new run."""
EMBEDDED = "default"
"""In place of a file: the embedded run, to lay others over."""


@dataclass(frozen=True)
class Plan:
    """What a command line means before names are resolved."""

    config: dict[str, Any]
    folder: RunFolder | None
    """The run that is continued or evaluated; ``None`` for a new one."""
    checkpoint: Path | None


def plan(command: str, arguments: Arguments) -> Plan:
    """Find configuration, run and checkpoint of a command.

    Raises:
        ConfigError: If one of them is not there.
    """
    embedded, written = _configurations(arguments)
    config = deep_merge(embedded, written)
    given = dict(config)
    for setting in arguments.settings:
        if len(setting.path) == 1:
            given[setting.path[0]] = setting.value
    runs_folder = Path(_text(given, "runs_folder") or RunSettings.runs_folder)
    if command == "fit":
        folder, checkpoint = _continued(_text(given, "resume"), _text(given, "run_folder"), runs_folder)
        if not arguments.configs:
            embedded, written = ({}, load_file(folder.config)) if folder else (default_config(), {})
        config = _with_preset(embedded, written, arguments)
    else:
        folder, checkpoint = _evaluated(given, arguments, runs_folder)
        if not arguments.configs:
            config = load_file(folder.config)
    for setting in arguments.settings:
        apply_setting(config, setting)
    return Plan(config, folder, checkpoint)


def _configurations(arguments: Arguments) -> tuple[dict[str, Any], dict[str, Any]]:
    """The embedded run, if it is named first, and what the files say."""
    embedded: dict[str, Any] = {}
    written: dict[str, Any] = {}
    for index, path in enumerate(arguments.configs):
        if str(path) != EMBEDDED:
            written = deep_merge(written, load_file(path))
        elif index == 0:
            embedded = default_config()
        else:
            written = deep_merge(written, default_config())
    return embedded, written


def _with_preset(embedded: dict[str, Any], written: dict[str, Any], arguments: Arguments) -> dict[str, Any]:
    """The configuration, with the preset that it names laid over the embedded run and beneath what a person wrote."""
    found = [_text(each, "compat") for each in (written, _section(written, "model"))]
    found += [setting.value for setting in arguments.settings if setting.path in (("compat",), ("model", "compat"))]
    names = [name for name in found if name is not None]
    if not names:
        return deep_merge(embedded, written)
    name = names[-1]
    model = _section(written, "model")
    given = {
        **model,
        **{
            setting.path[1]: True
            for setting in arguments.settings
            if setting.path[0] == "model" and len(setting.path) > 1
        },
    }
    preset = compat(str(name), given)
    config = deep_merge(deep_merge(embedded, {"model": preset}), written)
    if "compat" in _section(config, "model"):
        config["model"] = {key: value for key, value in config["model"].items() if key != "compat"}
    arguments.settings = [setting for setting in arguments.settings if setting.path != ("model", "compat")]
    return {**config, "compat": name}


def _section(config: dict[str, Any], name: str) -> dict[str, Any]:
    section = config.get(name)
    return section if isinstance(section, dict) else {}


def default_config() -> dict[str, Any]:
    """The embedded run, which needs no file and no download."""
    with as_file(files("grpo_lightning.cli") / "default.yaml") as path:
        return load_file(path)


def _text(given: dict[str, Any], name: str) -> str | None:
    # A value of another type is told by the check of types, later and better.
    value = given.get(name)
    return value if isinstance(value, str) else None


def _continued(resume: str | None, run_folder: str | None, runs_folder: Path) -> tuple[RunFolder | None, Path | None]:
    if resume is None:
        return None, None
    if resume == AUTO and run_folder is not None:
        named = RunFolder(Path(run_folder))
        return (named, named.last) if named.config.exists() and named.last.exists() else (None, None)
    if resume == AUTO:
        newest = newest_run(runs_folder)
        return (newest, _last(newest)) if newest else (None, None)
    path = Path(resume)
    if RunFolder(path).config.exists():
        return RunFolder(path), _last(RunFolder(path))
    if not path.exists():
        raise ConfigError("resume", resume, "does not exist", "give a checkpoint, a run folder, or auto")
    return run_of_checkpoint(path), path


def _last(folder: RunFolder) -> Path:
    if not folder.last.exists():
        raise ConfigError("resume", str(folder.path), "has no last.ckpt", "give another run, or a checkpoint")
    return folder.last


def _evaluated(given: dict[str, Any], arguments: Arguments, runs_folder: Path) -> tuple[RunFolder, Path]:
    named, run = _text(given, "ckpt_path"), _text(given, "run")
    checkpoint = Path(named) if named else None
    if checkpoint is not None and not checkpoint.exists():
        raise ConfigError("ckpt_path", named, "does not exist", "give a checkpoint of a run")
    folder = RunFolder(Path(run)) if run else None
    if folder is not None and not folder.path.is_dir():
        raise ConfigError("run", run, "does not exist", f"give a folder such as {runs_folder}/001")
    if folder is None and checkpoint is not None:
        folder = run_of_checkpoint(checkpoint)
    if folder is None and arguments.configs and RunFolder(arguments.configs[0].parent).checkpoint():
        folder = RunFolder(arguments.configs[0].parent)
    folder = folder or newest_run(runs_folder)
    if folder is None:
        raise ConfigError("run", None, f"is not found: {runs_folder} holds no run with a checkpoint",
                          "train one with fit, or name one with --run")  # fmt: skip
    checkpoint = checkpoint or folder.checkpoint()
    if checkpoint is None:
        raise ConfigError("run", str(folder.path), "has no checkpoint", "train it, or name one with --ckpt_path")
    return folder, checkpoint


@dataclass(frozen=True)
class Place:
    """Where a command writes."""

    folder: RunFolder
    new: bool
    """Made by this process, for this run."""


def new_place(settings: RunSettings) -> Place:
    """The folder of a new run: a new number, the one that is named, or that of the process which started this one.

    Raises:
        ConfigError: If the folder is taken, or processes that were started from outside could not agree on one.
    """
    inherited = inherited_run_folder()
    if inherited:
        return Place(inherited, new=False)
    rank, again = _rank_from_outside(), settings.resume == AUTO
    if rank is None:
        if settings.run_folder:
            return Place(claim_run_folder(Path(settings.run_folder), again=again), new=True)
        return Place(create_run_folder(Path(settings.runs_folder)), new=True)
    if not settings.run_folder:
        raise ConfigError("run_folder", None, "is missing for processes that something else has started",
                          "set it, the same for all of them")  # fmt: skip
    if rank == 0:
        return Place(claim_run_folder(Path(settings.run_folder), again=again), new=True)
    return Place(RunFolder(Path(settings.run_folder)), new=False)


def _rank_from_outside() -> int | None:
    """This process's rank among processes of another launcher; ``None`` if it stands alone or Lightning started it."""
    environment = os.environ
    if ENVIRONMENT in environment:
        return None
    if int(environment.get("WORLD_SIZE") or environment.get("SLURM_NTASKS") or 1) < 2:
        return None
    for name in ("RANK", "SLURM_PROCID", "LOCAL_RANK"):
        if name in environment:
            return int(environment[name])
    return None
