from __future__ import annotations

from dataclasses import asdict

from grpo_lightning.callbacks.report_tables import RunHistory, before_and_after, evaluation_table, times
from grpo_lightning.reports import EvaluationReport, UpdateReport
from helpers.run_reports import rollout_report


def cells(table: object) -> list[tuple[str, ...]]:
    columns = [list(column.cells) for column in table.columns]  # type: ignore[attr-defined]
    return list(zip(*columns, strict=True))


def evaluation(name: str, **metrics: float) -> EvaluationReport:
    return EvaluationReport(name, 10, 4, metrics)


def test_first_and_last_validation_of_each_set() -> None:
    history = RunHistory()
    history.add_validation(0, [evaluation("easy", accuracy=0.5, reward=9.0), evaluation("open", reward=2.0)])
    history.add_validation(50, [evaluation("easy", accuracy=0.625), evaluation("odd", length_mean=3.0)])
    history.add_validation(90, [evaluation("easy", accuracy=0.75)])
    assert cells(before_and_after(history)) == [
        ("easy accuracy", "0.500 (update 0)", "0.750 (update 90)"),
        ("open reward", "2.000 (update 0)", "2.000 (update 0)"),
    ]


def test_rewards_stand_in_for_validation() -> None:
    history = RunHistory()
    for reward in (0.0, 1.0, None, 2.0):
        history.add_rollout(rollout_report(), reward)
    assert cells(before_and_after(history)) == [("mean reward", "1.000 (first 3 rollouts)", "1.000 (last 3 rollouts)")]


def test_times_add_up_by_phase() -> None:
    history = RunHistory()
    history.add_rollout(rollout_report(), None)
    history.add_rollout(rollout_report(), None)
    history.add_update(UpdateReport("warmup", 1, -1, {"time/update": 0.5}))
    history.add_update(UpdateReport("grpo", 2, 0, {"time/update": 2.0}))
    history.add_update(UpdateReport("grpo", 3, 0, {}))
    assert history.seconds == {"generate": 1.0, "reward": 0.5, "score": 0.25, "warm-up": 0.5, "update": 2.0}
    assert times(history.seconds, 8.5).startswith("8.5 s: generate 1.0 s (12%), ")
    assert times(history.seconds, 8.5).endswith("other 4.2 s (50%)")


def test_history_survives_a_checkpoint() -> None:
    history = RunHistory()
    history.add_validation(3, [evaluation("easy", accuracy=0.5)])
    history.add_rollout(rollout_report(), 0.25)
    assert RunHistory(**asdict(history)) == history


def test_sets_with_different_metrics_share_a_table() -> None:
    table = evaluation_table("test", [evaluation("a", accuracy=1 / 3), evaluation("b", reward=2.0)])
    assert cells(table) == [
        ("prompts", "10", "10"),
        ("completions a prompt", "4", "4"),
        ("accuracy", "0.3333", ""),
        ("reward", "", "2"),
    ]
