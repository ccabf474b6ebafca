"""Which command is meant, and how its faults are told."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from grpo_lightning._version import __version__
from grpo_lightning.errors import ConfigError, GRPOError, PluginError, near_matches

DEBUG = "GRPO_LIGHTNING_DEBUG"
"""Environment variable: show tracebacks."""
TRAINER_COMMANDS = {
    "fit": "train; without a configuration, a small embedded run",
    "validate": "evaluate the newest run on its validation data",
    "test": "evaluate the newest run on its test data: accuracy, pass@k, majority@k",
    "predict": "write completions of the newest run as JSONL",
}

EXPLAIN, PLAN, VERIFY_RESUME = "explain", "plan", "verify-resume"
SETTINGS_COMMANDS = {
    EXPLAIN: "the equation that a configuration optimises, its papers and its contradictions",
    PLAN: "memory of each process and tokens of a step, before anything is launched",
    VERIFY_RESUME: "kill a run at several moments, go on with it, and compare it with one that was left alone",
}
"""They take the words of ``fit``."""


def main(words: Sequence[str] | None = None) -> int:
    """Run one command line.

    Args:
        words: The words after the program's name; by default those of this process.

    Returns:
        0, or 1 for a fault of the run, 2 for a fault of its configuration, 130 for a run that was stopped.
    """
    # torch reads it when it first asks for memory: large pages, or every tensor of a pass is paid for page by page.
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    return failed(lambda: _dispatch(list(sys.argv[1:] if words is None else words)))


def failed(command: Callable[[], int]) -> int:
    """The exit code of a command; what it raises is told in one line."""
    debug = os.environ.get(DEBUG, "") not in ("", "0")
    try:
        return command()
    except KeyboardInterrupt:
        if debug:
            raise
        sys.stderr.write("\nstopped\n")
        return 130
    except GRPOError as error:
        if debug:
            raise
        if os.environ.get("LOCAL_RANK", "0") == "0":  # what stops a run stops all ranks, with one message
            sys.stderr.write(f"error: {' '.join(str(error).split())}\n")
        return 2 if isinstance(error, ConfigError | PluginError) else 1


def leave(code: int) -> NoReturn:
    """End this process with an exit code, at once where Python's own way out could wait or abort.

    It would wait for the threads of a pool in which a reward's call still runs, which may never end; and what takes down the
    connections of a rank that failed may find the other ranks gone and abort, which turns the exit code into a signal.
    """
    if _reward_hung() or (code and _one_of_several_ranks()):
        wandb = sys.modules.get("wandb")
        if wandb is not None:
            wandb.teardown(exit_code=code)  # what it does at Python's own end: send what is left
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _reward_hung() -> bool:
    rewards = sys.modules.get("grpo_lightning.rewards.abandoned")
    return rewards is not None and rewards.anything_hung()


def _one_of_several_ranks() -> bool:
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return False
    return bool(torch.distributed.get_world_size() > 1)


def _dispatch(words: list[str]) -> int:
    command, rest = (words[0], words[1:]) if words else ("--help", [])
    if command in ("-h", "--help", "help"):
        sys.stdout.write(_overview())
        return 0
    if command in ("-V", "--version"):
        sys.stdout.write(f"grpo_lightning {__version__}\n")
        return 0
    if command in TRAINER_COMMANDS:
        # Imported here: Lightning takes seconds, and the commands below do not need it.
        from grpo_lightning.cli.run import run

        return run(command, rest)
    if command == EXPLAIN:
        from grpo_lightning.cli.explain import run as run_explain

        return run_explain(rest)
    if command == PLAN:
        from grpo_lightning.cli.plan import run as run_plan

        return run_plan(rest)
    if command == VERIFY_RESUME:
        from grpo_lightning.cli.verify_resume import run as run_verify_resume

        return run_verify_resume(rest)
    light = _light_commands()
    if command not in light:
        fix = near_matches(command, [*TRAINER_COMMANDS, *SETTINGS_COMMANDS, *light])
        raise ConfigError("command", command, "is no command", fix)
    return light[command](rest)


def _light_commands() -> dict[str, Callable[[list[str]], int]]:
    from grpo_lightning.cli.light import light_commands

    return light_commands()


def _overview() -> str:
    from grpo_lightning.cli.light import summaries

    commands = {**TRAINER_COMMANDS, **SETTINGS_COMMANDS, **summaries()}
    width = max(map(len, commands))
    lines = [f"  {name:<{width}}  {summary}" for name, summary in commands.items()]
    return "\n".join(
        [
            "usage: python -m grpo_lightning <command> [--config FILE] [--setting VALUE]",
            "",
            *lines,
            "",
            "  <command> --help     its settings",
            "  fit --print_config   the whole configuration, without running it",
            "",
        ]
    )
