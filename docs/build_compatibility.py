"""Writes docs/compatibility.md from the presets: python docs/build_compatibility.py"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from grpo_lightning.compat import PRESETS, Followed, Preset

PAGE = Path(__file__).with_name("compatibility.md")
RECORDED = PAGE.parents[1] / "tests" / "data" / "trl_1_16.json"
TITLES = {"trl": "TRL", "verl": "verl", "openrlhf": "OpenRLHF", "nemo_rl": "NeMo-RL"}
HEAD = """# Coming from another system

A preset sets what a run of another system has by default, so that the same rollouts give the same advantages, the same loss
and the same gradient. At the top of a configuration:

```yaml
compat: trl
model:
  kl: {{weight: 0.04}}
```

or on the command line, `python -m grpo_lightning fit --compat trl --config X`. A preset lies beneath what is written: every
setting of a configuration, a folder of settings or the command line wins over it, option by option; `--config default`, the
embedded run, lies below it. `fit --print_config`
shows the outcome, `python -m grpo_lightning explain --compat trl --config X` its equation. The settings themselves are
`grpo_lightning.compat.compat("trl")`.

A preset follows in the numbers, not in what its system gets wrong. Where it does not follow, the tables below say so, with
the reason. No preset follows in the degenerate cases: a group whose rewards are equal has advantage exactly 0, rows that
abstain are in no statistic, and the gradient does not depend on how an update is cut into micro-batches or over ranks.

How they were checked. **TRL's preset was run against TRL**:
[`benchmarks/compat_trl.py`](../benchmarks/compat_trl.py) records advantages, losses and gradients of trl 1.16.0 on small
rollouts, in an environment of its own, and [`tests/integration/test_compat_trl.py`](../tests/integration/test_compat_trl.py)
holds the preset, and what a person writes for other settings of theirs, against those numbers, {cases} cases in all: value
and gradient within 1e-6 of the largest entry, since TRL keeps rewards and advantages in float32. Where we differ, and it can
be recorded, a test of its own says by how much. **The other systems were read, not run**: what stands here is what their
sources say at the versions named.

This page is written by `python docs/build_compatibility.py` from `src/grpo_lightning/compat`.
"""


def page() -> str:
    """The text of the page."""
    links = ", ".join(f"[{title(name)}](#{title(name).lower()})" for name in PRESETS)
    cases = len(json.loads(RECORDED.read_text())["cases"])
    return "\n".join(
        [
            HEAD.format(cases=cases),
            f"Presets: {links}.",
            "",
            *(system(name, preset) for name, preset in PRESETS.items()),
        ]
    )


def title(name: str) -> str:
    """A system's own name."""
    return TITLES.get(name, name)


def system(name: str, preset: Preset) -> str:
    """The section of one preset."""
    lines = [f"## {title(name)}", "", f"`compat: {name}`. Read: {preset.version}.", ""]
    for setting, (reason, choices) in preset.undecided.items():
        lines += [f"**`model.{setting}` has to be written** with this preset: {text(reason)}. {sentence(choices)}", ""]
    lines += ["What it sets:", "", "```yaml", settings(preset.settings), "```", ""]
    lines += table(
        ["their setting", "default", "ours, below `model`", "other values"], [followed(each) for each in preset.follows]
    )
    lines += ["What differs:", ""]
    lines += table(
        ["theirs", "ours", "why"], [[text(each.theirs), text(each.ours), text(each.why)] for each in preset.differs]
    )
    if preset.elsewhere:
        lines += ["What a preset leaves to you:", ""]
        lines += table(
            ["theirs (default)", "write"], [[f"`{theirs}`", text(ours)] for theirs, ours in preset.elsewhere.items()]
        )
    return "\n".join(lines)


def followed(each: Followed) -> list[str]:
    """The row of one setting of theirs."""
    ours = "<br>".join(f"`{path}: {value(found)}`" for path, found in each.ours.items())
    name = text(each.setting) if each.setting.startswith("(fixed)") else f"`{each.setting}`"
    return [name, f"`{each.default}`", ours or "nothing", text(each.remark)]


def settings(found: Mapping[str, Any]) -> str:
    """Settings as a configuration has them."""
    written: str = yaml.safe_dump({"model": dict(found)}, sort_keys=False, default_flow_style=None, width=120)
    return written.rstrip("\n")


def value(found: Any) -> str:
    """A value in one line of YAML."""
    written: str = yaml.safe_dump(found, default_flow_style=True, width=1000)
    return written.removesuffix("...\n").strip()


def text(words: str) -> str:
    """Words that may stand in a cell of a table."""
    return words.replace("|", "\\|").replace("<", "&lt;")


def sentence(words: str) -> str:
    """Words as a sentence."""
    return f"{words[:1].upper()}{words[1:].rstrip('.')}."


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table and an empty one."""
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(row)} |" for row in rows), ""]


if __name__ == "__main__":
    PAGE.write_text(page())
