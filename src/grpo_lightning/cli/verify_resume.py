"""``verify-resume``: kill a run at several moments, go on with it, and compare it with the run that was left alone."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_lightning.cli.arguments import Arguments, Setting, parse_arguments
from grpo_lightning.cli.configured_module import configured_module
from grpo_lightning.cli.resume_points import Point, points, updates_needed
from grpo_lightning.cli.run_difference import PARTS, Difference, difference, prompts_lost
from grpo_lightning.cli.run_folder import RunFolder
from grpo_lightning.errors import ConfigError, GRPOError
from grpo_lightning.module import GRPOModule
from grpo_lightning.rewards.composer import entry_name

HELP = """usage: python -m grpo_lightning verify-resume [--config FILE] [--setting VALUE] [--updates N] [--output FOLDER]
       [--moments N,N,...]

Trains for a few updates without interruption; then again for each of several moments: killed there (SIGKILL, all its
processes), continued with --resume from its last checkpoint, and compared with the first run. Weights, optimizer, the
state of every part and every logged metric but times must be equal bit for bit. A checkpoint is written every update.

Engines, environments and rewards that say that they are not deterministic cannot give equal runs. Then only this is
compared: rollouts that were sampled again after a kill asked for the same prompts, and none was left out.

  --config FILE    a configuration, as for fit; without one, the embedded run
  --setting VALUE  any setting of fit but resume, run_folder, save_every and trainer.max_steps
  --updates N      updates of each run; by default as many as the moments need
  --output FOLDER  where runs are written; by default a temporary folder, removed at the end
  --moments LIST   only the moments of these numbers, from 1, in the order in which they are shown
"""
OWN = ("updates", "output", "moments")
REFUSED = (("resume",), ("run_folder",), ("save_every",), ("trainer", "max_steps"))
SECONDS = 3600
"""How long one run may take."""


@dataclass(frozen=True)
class Outcome:
    """What came of one moment."""

    point: Point
    difference: Difference | None
    """``None`` where bits are not compared."""
    prompts: list[str]

    @property
    def good(self) -> bool:
        """Whether the run went on as if it had not been killed."""
        return not self.prompts and (self.difference is None or self.difference.equal)


def run(words: Sequence[str]) -> int:
    """kill a run at several moments, go on with it, and compare it with one that was left alone

    Args:
        words: What follows the command.

    Returns:
        0 if all runs are equal, else 1.

    Raises:
        GRPOError: If the configuration is wrong, or a run ends in another way than it should.
    """
    arguments = parse_arguments(words)
    if arguments.help:
        sys.stdout.write(HELP)
        return 0
    own = {name: _own(arguments, name) for name in OWN}
    for setting in arguments.settings:
        if setting.path in REFUSED:
            raise ConfigError(".".join(setting.path), setting.value, "is set by verify-resume", "leave it out")
    kept = _words(words)
    module, configuration = configured_module(arguments)
    found = points(module, (configuration.config.get("data") or {}).get("validate_every"))
    updates = int(own["updates"] or updates_needed(found, module))
    found = _chosen([point for point in found if point.update < updates], own["moments"])
    vague = not_deterministic(module)
    if vague:
        sys.stdout.write(
            f"not deterministic: {', '.join(vague)}. Runs are not compared bit for bit; only prompts are.\n"
        )
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(own["output"] or scratch)
        outcomes = _verify([*kept, "--save_every=1", f"--trainer.max_steps={updates}"], found, folder, bits=not vague)
    return 0 if all(outcome.good for outcome in outcomes) else 1


def not_deterministic(module: GRPOModule) -> list[str]:
    """The parts of a module that may answer the same question differently, by their settings."""
    parts: dict[str, Any] = {"model.engine": module.engine, "model.environment": module.environment}
    parts |= {f"model.rewards.{entry_name(entry)}": entry.reward for entry in module.rewards}
    return [f"{setting} ({part.name})" for setting, part in parts.items() if not part.deterministic]


def _verify(words: Sequence[str], found: Sequence[Point], folder: Path, *, bits: bool) -> list[Outcome]:
    straight = RunFolder(folder / "straight")
    if bits:
        _fit("-", [f"--run_folder={straight.path}", *words], killed=False)
    _row(["moment", "killed after update", *(PARTS if bits else ()), "prompts"])
    outcomes = []
    for number, point in enumerate(found, 1):
        killed = RunFolder(folder / f"{number:02d}")
        _fit(str(point), [f"--run_folder={killed.path}", *words], killed=True)
        _fit("-", [f"--resume={killed.path}", *words], killed=False)
        outcome = Outcome(point, difference(straight, killed) if bits else None, prompts_lost(killed))
        cells = []
        if outcome.difference is not None:
            found_, compared = outcome.difference.found, outcome.difference.compared
            cells = [_cell(found_[part], compared[part]) for part in PARTS]
        _row([f"{number} {point.name}", str(point.update), *cells, "; ".join(outcome.prompts) or "kept"])
        outcomes.append(outcome)
    return outcomes


def _cell(different: Sequence[str], compared: int) -> str:
    if not different:
        return f"equal ({compared})"
    return f"{len(different)} of {compared} differ: {', '.join(different[:3])}"


def _row(cells: Sequence[str]) -> None:
    sys.stdout.write("| " + " | ".join(cells) + " |\n")
    sys.stdout.flush()


def _fit(point: str, words: Sequence[str], *, killed: bool) -> None:
    command = [sys.executable, "-m", "grpo_lightning.cli.killed_fit", point, *words]
    # A session of its own: the kill is one of the whole process group.
    done = subprocess.run(command, capture_output=True, text=True, start_new_session=True, timeout=SECONDS, check=False)
    if killed and done.returncode >= 0:
        raise GRPOError(f"a run that was to be killed at {point} ended with code {done.returncode} before: it has fewer "
                        f"updates, or fails: {done.stderr[-2000:]}")  # fmt: skip
    if not killed and done.returncode:
        raise GRPOError(f"a run ended with code {done.returncode}: {done.stderr[-2000:]}")


def _own(arguments: Arguments, name: str) -> str | None:
    """The value of an option of this command, taken out of the settings."""
    found: list[Setting] = [setting for setting in arguments.settings if setting.path == (name,)]
    arguments.settings = [setting for setting in arguments.settings if setting.path != (name,)]
    return str(found[-1].value) if found else None


def _words(words: Sequence[str]) -> list[str]:
    """The words that are ``fit``'s."""
    rest, kept = list(words), []
    while rest:
        word = rest.pop(0)
        name, equals, _ = word.partition("=")
        if name.removeprefix("--") not in OWN:
            kept.append(word)
        elif not equals and rest and not rest[0].startswith("--"):
            rest.pop(0)
    return kept


def _chosen(found: Sequence[Point], numbers: str | None) -> list[Point]:
    if numbers is None:
        return list(found)
    wanted = [int(number) for number in numbers.split(",") if number.strip().isdigit()]
    if not wanted or not all(1 <= number <= len(found) for number in wanted):
        raise ConfigError("moments", numbers, "names no moments", f"give numbers from 1 to {len(found)}")
    return [found[number - 1] for number in wanted]
