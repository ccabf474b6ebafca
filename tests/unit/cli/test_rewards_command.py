from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from grpo_lightning.cli.main import main


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = {"rewards": ["exact_match", {"name": "regex", "pattern": "[0-9]+", "full": True, "weight": 0.5}]}
    Path("a.yaml").write_text(yaml.safe_dump({"model": model}))
    rows = [{"prompt": "21>", "completion": ["12", "21", "x"], "answer": "12"}]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["rewards", *words]) == 0
    return capsys.readouterr().out


def test_try(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "try", "--config", "a.yaml", "--data", "rows.jsonl")
    assert text.startswith("rows.jsonl: 3 rows in 1 group, scored by a.yaml\n")
    assert ["1", "0", "1.000", "1.000", "1.500", "12"] in map(str.split, text.splitlines())
    found = json.loads(shown(capsys, "try", "--config", "a.yaml", "--data", "rows.jsonl", "--json"))
    assert [row["reward"] for row in found["rows"]] == [1.5, 0.5, 0.0]


def test_compare(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "a.yaml#exact_match", "a.yaml#regex", "--data", "rows.jsonl"]
    # 1 0 0 and 1 1 0: one pair agrees, and each has two pairs that are not equal.
    found = json.loads(shown(capsys, *words, "--json"))
    assert found["kendall"]["over_all"] == pytest.approx(0.5)
    assert found["best_changes"] == 0
    assert "A  a.yaml#exact_match\nB  a.yaml#regex\n" in shown(capsys, *words)


def test_compare_over_a_common_base(capsys: pytest.CaptureFixture[str]) -> None:
    Path("over.yaml").write_text(yaml.safe_dump({"model": {"rewards": [{"name": "regex", "pattern": "x"}]}}))
    words = ["compare", "over.yaml", "a.yaml#regex", "--config", "a.yaml", "--data", "rows.jsonl"]
    text = shown(capsys, *words)
    assert "A  a.yaml, over.yaml\nB  a.yaml, a.yaml#regex\n" in text
    assert "groups whose best member changes: 1 of 1 (100%)" in text  # x, and not a number


def test_a_failure_that_would_stop_a_run_is_1(capsys: pytest.CaptureFixture[str]) -> None:
    Path("raises_always.py").write_text("def bad(completions):\n    raise KeyError('by hand')\n")
    Path("b.yaml").write_text(yaml.safe_dump({"model": {"rewards": ["raises_always.bad"]}}))
    assert main(["rewards", "try", "--config", "b.yaml", "--data", "rows.jsonl"]) == 1
    assert "warning: bad failed on 3 of 3 rows (3 raised); a run would stop at the first" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["try", "--config", "a.yaml", "--data", "none.jsonl"], "data: 'none.jsonl' does not exist; check the path"),
        (["try", "--config", "none.yaml", "--data", "rows.jsonl"], "config: 'none.yaml' does not exist; check the path"),
        (["try", "--config", "a.yaml", "--data", "rows.jsonl", "--limit", "0"], "limit: 0 is no number of lines; set 1 or "
         "more"),
        (["compare", "a.yaml#none", "a.yaml", "--data", "rows.jsonl"], "model.rewards: 'none' is the name of no reward; "
         "known: exact_match, regex"),
        ([], "arguments: 'rewards' says not what to do; write rewards try or rewards compare"),
        (["try"], "arguments: 'try' cannot be read: the following arguments are required: --config, --data; see python -m "
         "grpo_lightning rewards try --help"),
    ],
)  # fmt: skip
def test_faults_are_one_line(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert main(["rewards", *words]) == 2
    assert capsys.readouterr() == ("", f"error: {message}\n")


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "--help")
    assert "try" in text
    assert "compare" in text
    assert "--data FILE" in shown(capsys, "try", "--help")


def test_neither_lightning_nor_transformers_is_imported() -> None:
    words = ["rewards", "try", "--config", "a.yaml", "--data", "rows.jsonl"]
    code = (
        "import sys\n"
        "from grpo_lightning.cli.main import main\n"
        f"code = main({words!r})\n"
        "heavy = sorted({name.partition('.')[0] for name in sys.modules} & {'lightning', 'transformers', 'wandb'})\n"
        "sys.exit(code or ', '.join(heavy) or 0)\n"
    )
    # Installed plugins are left out: what they import is their own matter.
    own = {**os.environ, "GRPO_LIGHTNING_PLUGINS": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=own)
    assert done.returncode == 0, done.stderr
