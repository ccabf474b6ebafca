"""Checks of callbacks. A tiny run reports to them: warm-up, rollouts, updates, evaluations, then validate and test."""

from __future__ import annotations

import copy
import io

import torch
from lightning.pytorch import Callback

from grpo_lightning.testing.check import Specimen, checks, expect
from grpo_lightning.testing.difference import difference
from grpo_lightning.testing.global_state import unchanged_globals
from grpo_lightning.testing.reporting import Run, report_to


def check_survives_a_run(specimen: Specimen) -> None:
    """It survives a run without loggers: rollouts without samples, rows that abstain, evaluations outside of fit."""
    report_to(specimen.make())


def check_survives_a_run_with_a_logger(specimen: Specimen) -> None:
    """It survives a run that has a logger."""
    if _run(specimen) is not None:
        report_to(specimen.make(), loggers=True)


def check_changes_no_report(specimen: Specimen) -> None:
    """It changes nothing in the reports that it is handed: others read them after it."""
    run = _run(specimen)
    found = difference(report_to(None).reports, run.reports, "reports") if run else None
    expect(
        found is None, "A callback changes no report", str(found), "copy what you want to change: dict(report.metrics)"
    )


def check_leaves_training_alone(specimen: Specimen) -> None:
    """A run ends with the same weights and the same random state with it as without it."""
    without, run = report_to(None), _run(specimen)
    if run is None:
        return
    found = difference(without.weight, run.weight, "the trained weight")
    found = found or difference(without.random_state, run.random_state, "the random state")
    expect(found is None, "What is shown does not change what is trained", str(found),
           "read outputs and reports only; draw from a generator of your own")  # fmt: skip


def check_writes_on_the_first_rank_only(specimen: Specimen) -> None:
    """On other ranks than the first it writes no file and prints nothing."""
    if _run(specimen) is None:
        return
    run = report_to(specimen.make(), rank=1)
    found = [f"the file {name}" for name in run.files] + ([f"the text {run.text[:60]!r}"] if run.text.strip() else [])
    expect(not found, "Only the first rank writes and prints", f"on another rank it wrote {', '.join(found)[:100]}",
           "return early unless trainer.is_global_zero")  # fmt: skip


def check_goes_on_from_its_state(specimen: Specimen) -> None:
    """Its state after a run is one that a checkpoint holds, and another one takes it and goes through a further run."""
    callback: Callback = specimen.make()
    if _run(specimen, callback) is None:
        return
    file = io.BytesIO()
    torch.save(callback.state_dict(), file)
    file.seek(0)
    try:
        state = torch.load(file, weights_only=True)
    except Exception as error:  # whatever the unpickler raises
        expect(False, "A state is made of tensors, numbers, texts, lists and dictionaries", " ".join(str(error).split())[:160],
               "write what you keep as such in state_dict")  # fmt: skip
    resumed: Callback = specimen.make()
    resumed.load_state_dict(copy.deepcopy(state))
    found = set(state) ^ set(resumed.state_dict())
    expect(not found, "A callback that takes over a state has the same entries in its own", f"{sorted(found)}",
           "take in load_state_dict every key that state_dict gives")  # fmt: skip
    report_to(resumed)


def check_leaves_the_process_alone(specimen: Specimen) -> None:
    """A run with it changes nothing that the process shares beyond what one without it does."""
    report_to(None)
    callback, state = specimen.make(), torch.get_rng_state()
    with unchanged_globals("a run that reports to it"):
        _run(specimen, callback)
        torch.set_rng_state(state)  # that training is left alone is a check of its own


def _run(specimen: Specimen, callback: Callback | None = None) -> Run | None:
    """A run that reports to it, or to a new one; ``None`` if it raised, which a check of its own tells."""
    try:
        return report_to(callback or specimen.make())
    except Exception:  # the callback's
        return None


CHECKS = checks(
    check_survives_a_run,
    check_survives_a_run_with_a_logger,
    check_changes_no_report,
    check_leaves_training_alone,
    check_writes_on_the_first_rank_only,
    check_goes_on_from_its_state,
    check_leaves_the_process_alone,
)
