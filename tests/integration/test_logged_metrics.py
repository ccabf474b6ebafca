"""What a run logs is what ``docs/metrics.md`` says, in the CSV file and in wandb."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from grpo_lightning.cli.main import main
from helpers.wandb_offline import read_offline_run
from meta.test_metric_docs import undocumented, unlogged

CONFIG = Path(__file__).parents[1] / "conf" / "tiny.yaml"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "one"
    words = ["--run_folder", str(folder), "--wandb", "true", "--model.rewards", "[{name: regex, pattern: '[0-9a-m]'}]"]
    assert main(["fit", "--config", str(CONFIG), *words]) == 0
    return folder


def _csv_rows(run: Path) -> list[dict[str, str]]:
    with (run / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def test_csv_holds_what_the_page_lists(run: Path) -> None:
    logged = {key for row in _csv_rows(run) for key, value in row.items() if value} - {"step", "epoch"}
    assert undocumented(logged) == set()
    for when in (
        "each update",
        "each GRPO update",
        "each warm-up update",
        "each rollout",
        "with a KL term in the loss",
    ):
        assert {key for key in unlogged(logged, when) if "histogram" not in key} == set(), when


def test_further_terms_log_what_the_page_lists(tmp_path: Path) -> None:
    folder = tmp_path / "more"
    words = ["--run_folder", str(folder), "--model.rewards", "[{name: regex, pattern: '[0-9a-m]'}]"]
    words += ["--model.kl", "{name: k1, weight: 0.01, where: reward, target: 1.0}", "--model.entropy.weight", "0.01"]
    words += ["--model.correction", "truncated_importance", "--model.auxiliary", "[{name: supervised, rows: 2}]"]
    assert main(["fit", "--config", str(CONFIG), *words]) == 0
    logged = {key for row in _csv_rows(folder) for key, value in row.items() if value} - {"step", "epoch"}
    assert undocumented(logged) == set()
    for when in ("a KL target", "a KL in the reward", "an entropy bonus", "auxiliary losses", "a correction"):
        assert unlogged(logged, f"with {when}") == set(), when


def test_one_row_an_update_and_validations_at_theirs(run: Path) -> None:
    rows = _csv_rows(run)
    assert [int(row["step"]) for row in rows if row["optim/grad_norm"]] == [1, 2, 3, 4, 5]
    assert [int(row["step"]) for row in rows if row["validation/held_out/accuracy"]] == [2, 4]


def test_kl_is_exactly_zero_at_the_first_grpo_update(run: Path) -> None:
    (first,) = [row for row in _csv_rows(run) if row["step"] == "3" and row["policy/kl"]]
    assert float(first["policy/kl"]) == 0.0
    assert float(first["policy/ratio"]) == 1.0


def test_wandb_has_the_same_numbers_and_a_table_of_groups(run: Path) -> None:
    offline = read_offline_run(run)
    csv_kl = {int(row["step"]): float(row["policy/kl"]) for row in _csv_rows(run) if row["policy/kl"]}
    assert offline.steps("policy/kl") == pytest.approx(csv_kl)
    for key in (
        "policy/entropy",
        "group/reward_variance_mean",
        "reward/regex/mean",
        "time/generate",
        "optim/grad_norm",
    ):
        assert offline.steps(key), key
    assert any("histogram" in key for row in offline.history for key in row)
    table = offline.table(next(iter(offline.steps("samples/train").values())))
    assert {"prompt", "completion", "reward/regex", "reward", "advantage", "group", "member"} <= set(table[0])
    assert len({row["group"] for row in table}) == 2
    assert len(table) == 8
