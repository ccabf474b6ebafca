"""``explain``: the equation that a configuration optimises. It takes the words that ``fit`` takes, and loads no weights."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from grpo_lightning.cli.arguments import Arguments, parse_arguments
from grpo_lightning.cli.configured_module import configured_module
from grpo_lightning.cli.run_folder import newest_run
from grpo_lightning.cli.run_settings import RunSettings
from grpo_lightning.errors import ConfigError
from grpo_lightning.explanation import explain
from grpo_lightning.explanation.page import latex, page
from grpo_lightning.explanation.signal import pass_rates_seen, signal_line
from grpo_lightning.module import GRPOModule

USUAL_RATES = (0.05, 0.25, 0.5, 0.75, 0.95)
FORMATS = ("text", "latex", "json")
HELP = """usage: python -m grpo_lightning explain [--config FILE] [--setting VALUE] [--run FOLDER] [--format text|latex|json]

Prints the equation that `fit` would optimise with the same words, assembled from the parts with their numbers: in
plain text and LaTeX, with what each sum is divided by, the papers, and warnings where choices contradict each other.
An overlay may stand alone: policy, rewards and data that it leaves out are those of the embedded run. No data is read:
whether columns exist is checked by fit.

  --config FILE    a configuration, as for fit; without one, the embedded run
  --setting VALUE  any setting of fit
  --run FOLDER     run whose pass rates tell the share of groups without signal; by default the newest one
  --format FORMAT  text (default), latex or json
"""


def run(words: Sequence[str]) -> int:
    """the equation that a configuration optimises, its papers and its contradictions

    Args:
        words: What follows the command.

    Raises:
        ConfigError: If the configuration is wrong, as ``fit`` would say it.
    """
    arguments = parse_arguments(words)
    if arguments.help:
        sys.stdout.write(HELP)
        return 0
    run_folder, form = _own(arguments, "run"), _own(arguments, "format") or "text"
    if form not in FORMATS:
        raise ConfigError("format", form, "is no format", "set text, latex or json")
    if run_folder is not None and not Path(run_folder).is_dir():
        raise ConfigError("run", run_folder, "does not exist", "give the folder of a run")
    # An overlay can be explained by itself: it need not say what is trained, on which data and how long.
    module, _ = configured_module(arguments, complete=True)
    explanation = explain(module)
    if form == "latex":
        sys.stdout.write(latex(explanation) + "\n")
        return 0
    rates = _signal(module, Path(run_folder) if run_folder else None)
    if form == "json":
        sys.stdout.write(
            json.dumps({**asdict(explanation), "latex": latex(explanation), "zero_signal": rates}, indent=2) + "\n"
        )
        return 0
    sys.stdout.write(page(explanation, _title(arguments)) + _lines(rates))
    return 0


def _own(arguments: Arguments, name: str) -> str | None:
    """The value of an option of this command, taken out of the settings."""
    found = [setting for setting in arguments.settings if setting.path == (name,)]
    arguments.settings = [setting for setting in arguments.settings if setting.path != (name,)]
    return str(found[-1].value) if found else None


def _title(arguments: Arguments) -> str:
    named = ", ".join(map(str, arguments.configs)) or "the embedded run"
    presets = [setting.value for setting in arguments.settings if setting.path in (("compat",), ("model", "compat"))]
    return f"What {named}" + "".join(f" with the settings of {preset}" for preset in presets) + " optimises"


def _signal(module: GRPOModule, folder: Path | None) -> dict[str, Any] | None:
    """Shares of groups without signal to be expected; ``None`` for estimators that do not compare."""
    if not module.advantage.compares:
        return None
    if folder is None:
        newest = newest_run(Path(RunSettings.runs_folder))
        folder = newest.path if newest else None
    seen = pass_rates_seen(folder / "metrics.csv") if folder else []
    return {"group_size": module.group_size, "run": str(folder) if seen else None, "rates": seen or list(USUAL_RATES)}


def _lines(signal: dict[str, Any] | None) -> str:
    if signal is None:
        return ""
    where = f"at the pass rates that {signal['run']} has seen (its 10th, 50th and 90th percentile over groups)"
    rates = where if signal["run"] else "at a pass rate p"
    shares = signal_line(signal["rates"], signal["group_size"])
    return (f"\ngroups without signal to be expected, p^G + (1 - p)^G with G = {signal['group_size']} and rewards 0 or 1, "
            f"{rates}:\n  {shares}\n")  # fmt: skip
