"""Writes docs/objectives.md: runs every reference and invariance test, and counts what was run.

python docs/build_objectives.py              # runs the tests, for some minutes, on one core
python docs/build_objectives.py --notes      # runs nothing: takes over docs/objectives_notes.md alone
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from grpo_lightning import create
from grpo_lightning.entropy_bonus import EntropyBonus
from grpo_lightning.formula import Formula
from grpo_lightning.kinds import KINDS
from grpo_lightning.kl.controller import AdaptiveKL
from grpo_lightning.pluginmanager import Plugins
from grpo_lightning.registry import Entry, Registry

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "objectives.md"
NOTES = ROOT / "docs" / "objectives_notes.md"
LIMIT = 30 * 60
"""Seconds after which the run is ended."""
REFERENCE = "test_equals_its_formula"
PROVEN = ("advantage", "loss", "aggregation", "kl", "correction")
"""Kinds of which every component must have a reference test."""
EVERY = "tests/integration/test_every_objective.py"
RANKS = "tests/integration/test_world_size.py"
INVARIANCE: dict[str, str] = {
    "loss": f"{EVERY}::test_every_surrogate_and_aggregation[NAME-*]",
    "aggregation": f"{EVERY}::test_every_surrogate_and_aggregation[*-NAME]",
    "kl": f"{EVERY}::test_every_kl_beside_every_scope[*-NAME]",
    "correction": f"{EVERY}::test_every_correction[*-NAME-*]",
}
"""What is run of each component of a kind; a star stands for a part of a name without a hyphen."""
INVARIANCE_OF_ONE: dict[tuple[str, str], str] = {
    ("correction", "product"): f"{EVERY}::test_a_product_of_corrections",
    ("advantage", "reinforce_plus_plus"): f"{RANKS}::test_processes_train_as_one[update]",
    ("advantage", "otb"): f"{RANKS}::test_processes_train_as_one[group]",
    ("setting", "entropy bonus"): f"{EVERY}::test_entropy_bonus",
}
PARTS: dict[str, dict[str, Any]] = {
    "constant_length": {"length": 512}, "tv_mask": {"limit": 0.2}, "max_variance": {"keep": 4},
    "clip": {"limit": 5.0},
}  # fmt: skip
"""Options of the components that have some that must be set."""
CLOSED: dict[str, str] = {
    "on-policy CISPO is REINFORCE": "tests/unit/losses/test_cispo.py::test_on_policy_it_is_reinforce",
    "GSPO-token is GSPO where a row has one advantage":
        "tests/unit/losses/test_gspo_token.py::test_is_gspo_where_a_row_has_one_advantage",
    "SAPO weighs by 1 at ratio 1":
        "tests/unit/losses/test_sapo.py::test_at_ratio_one_the_gradient_weight_is_one_and_the_value_is_two_over_tau",
    "decoupled PPO is PPO where the old policy sampled":
        "tests/unit/losses/test_decoupled.py::test_where_the_old_policy_sampled_it_is_the_clipped_loss",
    "PKPO against all subsets": "tests/unit/advantages/test_pkpo.py::test_equals_the_enumeration_of_subsets",
    "PKPO's gradient against that of max@k": "tests/unit/advantages/test_pkpo.py::test_is_an_unbiased_gradient_of_max_at_k",
    "pass@k against all subsets":
        "tests/unit/advantages/test_advantages_pass_at_k.py::test_equals_the_mean_over_all_subsets_with_the_row",
    "k2, exact and unbiased k3 in the loss, three steps over five words: the divergence of steps":
        "tests/unit/kl/test_three_steps.py::test_in_the_loss_the_divergence_of_steps_with_prefixes_held_fixed",
    "k3 in the loss, likewise: the other direction":
        "tests/unit/kl/test_three_steps.py::test_k3_in_the_loss_the_forward_divergence_of_steps",
    "k1 in the reward, likewise: the divergence of rows":
        "tests/unit/kl/test_three_steps.py::test_k1_in_the_reward_is_the_divergence_of_rows",
    "k2, k3, abs, exact and unbiased k3 in the reward are not that":
        "tests/unit/kl/test_three_steps.py::test_in_the_reward_no_other_is_the_divergence_of_rows",
}  # fmt: skip
"""What is known without the formula, and the test that says so."""
SOURCES = {"product": "those of its parts"}
"""Sources of what has none of its own."""
MARK = "<!-- docs/objectives_notes.md -->"
HEAD = """# The objective: what is proven, and how

Every number that decides an update is held against its formula, and every gradient against other ways of cutting the update.

**Reference.** For each component a test named `test_equals_its_formula` has the formula once more, written from the paper
in plain Python loops in float64, sharing no code with the component. [hypothesis](https://hypothesis.readthedocs.io) makes
the inputs ([tests/helpers/adversarial.py](../tests/helpers/adversarial.py)): ties, rewards from 1e-6 to 1e6, rows of one step,
rows that are empty or abstain, groups of 1 to 32, ratios from e^-20 to e^20, values rounded to bfloat16. Values must be
equal, and gradients where there are some, within rounding: 1e-10 of each unless the test says why not. A component with
several modes is tested in each. **{total} property-based cases were run** for this page.

**Invariance.** The gradient of an update does not depend on how its rows are cut into micro-batches, padded, packed or
ordered: through the real policy, buffer and objective, in float64, the relative L2 difference is below 1e-10, for every loss
with every aggregation that it goes with, every KL estimator and every correction. What does not compose is refused at start
with the reason, which is tested too. See
[tests/integration/test_every_objective.py](../tests/integration/test_every_objective.py). Two processes train as one:
[tests/integration/test_world_size.py](../tests/integration/test_world_size.py).

An advantage has no such test ("-"), because it is computed once for the rollout, from the scalars of all ranks, before
anything is cut into updates and micro-batches. An estimator of step advantages sees the steps of its own rank and adds up
over the ranks what it needs of the others; two such estimators are in the runs on two ranks.

Formulae, sources and examples are in [components.md](components.md); how the numbers of other systems differ, in
[compatibility.md](compatibility.md). All tests named here are part of `.ci/run`. This page is written by
`python docs/build_objectives.py`, which runs them: a row says passed if all tests that it names passed. In brackets, how many
tests a pattern names.
"""


class Recorder:
    """A plugin of pytest: what passed, and how many cases each property test really ran to its end."""

    def __init__(self) -> None:
        self.cases: Counter[str] = Counter()
        self.failed: dict[str, bool] = {}
        """By test: whether it failed in any phase."""
        self.current = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Any:
        self.current = item.nodeid
        handle = getattr(getattr(item, "obj", None), "hypothesis", None)
        if handle is not None and not hasattr(handle.inner_test, "counted"):
            handle.inner_test = self.counted(handle.inner_test)
        return (yield)

    def counted(self, test: Callable[..., Any]) -> Callable[..., Any]:
        """``test``, which counts the calls that return: cases that it found unfit leave by an exception."""

        @functools.wraps(test)
        def run(*arguments: Any, **named: Any) -> Any:
            result = test(*arguments, **named)
            self.cases[self.current] += 1
            return result

        run.counted = True  # type: ignore[attr-defined]
        return run

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed[report.nodeid] = self.failed.get(report.nodeid, False) or report.outcome != "passed"

    def of(self, pattern: str) -> list[str]:
        """The tests that were run of those that a pattern names."""
        return [nodeid for nodeid in self.failed if matches(pattern, nodeid)]

    def passed(self, pattern: str) -> bool:
        """Whether tests of this pattern were run, and all of them passed."""
        found = self.of(pattern)
        return bool(found) and not any(self.failed[nodeid] for nodeid in found)


def matches(pattern: str, nodeid: str) -> bool:
    """Whether a test is one of those that a pattern names; without brackets it names every setting of one function."""
    name = re.escape(pattern).replace(r"\*", "[^-]+")
    return re.fullmatch(name if "[" in pattern else rf"{name}(\[.*\])?", nodeid) is not None


def reference(entry: Entry) -> str | None:
    """The file with the reference test of a component."""
    folder, stem = KINDS[entry.kind].folder, entry.path.split(".")[-2]
    for name in (f"test_{stem}.py", f"test_{folder}_{stem}.py"):
        path = Path("tests/unit") / folder / name
        if (ROOT / path).exists() and f"def {REFERENCE}(" in (ROOT / path).read_text():
            return path.as_posix()
    return None


def invariance(kind: str, name: str) -> str | None:
    """The pattern of a component's invariance tests."""
    return INVARIANCE_OF_ONE.get((kind, name), INVARIANCE.get(kind, "").replace("NAME", name)) or None


def subjects() -> list[tuple[str, str, str, str, str | None]]:
    """Kind, name, link, source and file of the reference test, of everything that the table has a row for."""
    registry = list(Registry(Plugins([])))
    found: list[tuple[str, str, str, str, str | None]] = []
    for kind in (*PROVEN, *(each for each in KINDS if each not in PROVEN)):
        for entry in (each for each in registry if each.kind == kind):
            file = reference(entry)
            if kind in PROVEN or file is not None:
                link = f"[`{entry.name}`](components/{KINDS[kind].folder}.md#{entry.name})"
                found.append((kind, entry.name, link, source(entry), file))
    bonus, weight = EntropyBonus(weight=0.1, target=0.2).formula(), AdaptiveKL(weight=0.1, target=6.0).formula()
    settings = ("setting", "entropy bonus", "`model.entropy`", bonus, "tests/unit/test_entropy_bonus.py"), (
        "setting", "adaptive KL weight", "`model.kl.target`", weight, "tests/unit/kl/test_controller.py")  # fmt: skip
    return found + [
        (kind, name, link, cited("; ".join(each.sources)), file) for kind, name, link, each, file in settings
    ]


def source(entry: Entry) -> str:
    """Where a component is from: the sources of its equation, or else what its docstring says first of them."""
    if entry.name in SOURCES:
        return SOURCES[entry.name]
    formula: Formula | None = create(entry.kind, entry.name, **PARTS.get(entry.name, {})).formula()
    said = re.search(r"^Source: (.+?arXiv \d{4}\.\d{5}|[^;\n]+)", inspect.getdoc(entry.load()) or "", re.MULTILINE)
    return cited("; ".join(formula.sources if formula else ()) or (said[1] if said else "-"))


def cited(text: str) -> str:
    """Text with papers as links."""
    return re.sub(r"arXiv (\d{4}\.\d{5})", r"[arXiv \1](https://arxiv.org/abs/\1)", text.replace("``", "`"))


def run() -> Recorder:
    """Run every test that the table names."""
    files = [f"{file}::{REFERENCE}" for *_, file in subjects() if file] + list(CLOSED.values())
    recorder = Recorder()
    # Those on two ranks are marked as slow, which the project's own options leave out.
    os.chdir(ROOT)
    pytest.main(["-q", "-o", "addopts=", "-p", "no:cacheprovider", *files, EVERY, RANKS], plugins=[recorder])
    return recorder


def page(recorder: Recorder) -> str:
    """The text of the page."""
    shown = subjects()
    named = [nodeid for *_, file in shown if file for nodeid in recorder.of(f"{file}::{REFERENCE}")]
    total = f"{sum(recorder.cases[nodeid] for nodeid in named):,}".replace(",", " ")
    return "\n".join(
        [
            HEAD.format(total=total),
            "| kind | component | source | reference test | cases run | invariance test | passed |",
            "|---|---|---|---|---|---|---|",
            *(row(recorder, *subject) for subject in shown),
            "",
            "Known without a formula, in closed form or by enumeration:",
            "",
            "| what | test | passed |",
            "|---|---|---|",
            *(f"| {what} | {test(nodeid)} | {verdict(recorder, nodeid)} |" for what, nodeid in CLOSED.items()),
            "",
            MARK,
            "",
            NOTES.read_text(),
        ]
    )


def row(recorder: Recorder, kind: str, name: str, link: str, source: str, file: str | None) -> str:
    """The row of one component."""
    nodeid, pattern = file and f"{file}::{REFERENCE}", invariance(kind, name)
    modes = recorder.of(nodeid) if nodeid else []
    cases = str(sum(recorder.cases[each] for each in modes)) + (f" in {len(modes)} modes" if len(modes) > 1 else "")
    many = len(recorder.of(pattern)) if pattern else 0
    cut = f"`{pattern.rpartition('::')[2]}`" + (f" ({many})" if many > 1 else "") if pattern else "-"
    proven = verdict(recorder, *(each for each in (nodeid, pattern) if each)) if file else f"**no {REFERENCE}**"
    return f"| {kind} | {link} | {source} | {test(nodeid) if nodeid else '**none**'} | {cases} | {cut} | {proven} |"


def test(nodeid: str) -> str:
    """A link to the file of a test, and its name."""
    file, _, name = nodeid.partition("::")
    return f"[{Path(file).name}](../{file})`::{name}`"


def verdict(recorder: Recorder, *patterns: str) -> str:
    """Whether all tests of all patterns passed."""
    lost = [each.rpartition("::")[2] for each in patterns if not recorder.passed(each)]
    return f"**failed**: {', '.join(lost)}" if lost else "passed"


def main(arguments: Sequence[str]) -> int:
    """Write the page; 1 if something did not pass."""
    if "--notes" in arguments:
        kept = PAGE.read_text().partition(MARK)[0]
        PAGE.write_text(f"{kept}{MARK}\n\n{NOTES.read_text()}")
        return 0
    os.environ["OMP_NUM_THREADS"] = "1"
    signal.alarm(LIMIT)
    recorder = run()
    PAGE.write_text(page(recorder))
    return int(any(recorder.failed.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
