"""What is wrong with a configuration is said in one line, before weights load."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from grpo_lightning.cli.main import main
from grpo_lightning.policies.causal_lm import CausalLM

TINY = Path(__file__).parents[1] / "conf" / "tiny.yaml"
ROW = {"prompt": "3142>", "answer": "1234"}


def raises(completions: list[str]) -> list[float]:
    """A reward that is broken."""
    raise KeyError("by hand")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LOCAL_RANK", raising=False)

    def load(self: Any) -> None:
        raise AssertionError("weights were loaded")

    monkeypatch.setattr(CausalLM, "load", load)


def write(name: str, rows: Sequence[dict[str, Any]]) -> str:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return name


def fault(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The line that ``fit`` says, which is all it says."""
    assert main(["fit", "--config", str(TINY), *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.endswith("\n")
    assert captured.err.count("\n") == 1
    assert not list(Path().glob("runs/*")), "a run that never began leaves no folder"
    return captured.err.removeprefix("error: ").rstrip("\n")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--model.advantage", "leave_one_ot"], "model.advantage: 'leave_one_ot' is no known advantage; "
         "did you mean 'leave_one_out'?"),
        (["--model.loss.epsilon_hihg", "0.3"], "model.loss.epsilon_hihg: 0.3 is no option of 'clipped'; "
         "did you mean 'epsilon_high' or 'epsilon_low'?"),
        (["--model.group_size", "eight"], "model.group_size: 'eight' has the wrong type; set an integer"),
        (["--model.loss.epsilon_low", "-1"], "model.loss.epsilon_low: -1.0 is outside [0, 1]; "
         "set a value inside that range"),
        (["--trainer.accumulate_grad_batches", "4"], "trainer.accumulate_grad_batches: 4 cannot be set by hand; "
         "set model.micro_batch_tokens, from which it follows"),
        (["--model.policy.model", "./nowhere"], "model.policy.model: './nowhere' does not exist; give a folder, "
         "a .gguf file, a hub id (owner/name), package://NAME/FILE or embedded://tiny-llama"),
        (["--trainer.strategy", "fsdp"], "trainer.strategy: 'fsdp' is refused by Lightning: "),
        (["--trainer.devices", "none"], "trainer.devices: 'none' is refused by Lightning: "),
        (["--data.train", "{path: none.jsonl}"], "data.train.path: 'none.jsonl' does not exist; "),
    ],
)  # fmt: skip
def test_settings(capsys: pytest.CaptureFixture[str], words: list[str], line: str) -> None:
    said = fault(capsys, *words)
    assert said == line if not line.endswith(" ") else said.startswith(line)


def test_nothing_to_compare_with(capsys: pytest.CaptureFixture[str]) -> None:
    assert fault(capsys, "--model.group_size", "1").startswith("model.group_size: 1 ")


def test_data_that_is_empty_malformed_or_lacks_a_column(capsys: pytest.CaptureFixture[str]) -> None:
    empty = write("empty.jsonl", [])
    assert fault(capsys, "--data.train", f"{{path: {empty}}}").startswith("data.train.path: 'empty.jsonl' is empty; ")
    Path("broken.jsonl").write_text(json.dumps(ROW) + "\n{oops\n")
    assert "line 2" in fault(capsys, "--data.train", "{path: broken.jsonl}")
    good = write("good.jsonl", [ROW] * 8)
    said = fault(capsys, "--data.train", f"{{path: {good}, columns: {{prompt: question}}}}")
    assert said.startswith("data.train.columns: 'question' is no column of good.jsonl; ")


def test_data_smaller_than_a_rollout(capsys: pytest.CaptureFixture[str]) -> None:
    path = write("small.jsonl", [{**ROW, "prompt": "1>"}, {**ROW, "prompt": "2>"}])
    said = fault(capsys, "--data.train", f"{{path: {path}}}", "--model.prompts_per_rollout", "3")
    assert said.startswith("data.train: ")
    assert "model.prompts_per_rollout" in said


def test_reserved_columns_and_long_prompts(capsys: pytest.CaptureFixture[str]) -> None:
    path = write("reserved.jsonl", [{**ROW, "completions": "x"}] * 8)
    assert "'completions'" in fault(capsys, "--data.train", f"{{path: {path}}}")
    assert "data.long_prompts" in fault(capsys, "--data.max_prompt_tokens", "1")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: [1\nb: 2\n", "is malformed at line 2: expected ',' or ']', but got ':'; mend that line"),
        ("- a\n", "is no mapping of settings; start from a file in configs/"),
    ],
)
def test_yaml(capsys: pytest.CaptureFixture[str], text: str, line: str) -> None:
    Path("bad.yaml").write_text(text)
    assert fault(capsys, "--config", "bad.yaml") == f"config: 'bad.yaml' {line}"


def test_a_reward_that_raises_ends_the_run_with_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    assert main(["fit", "--config", str(TINY), "--runs_folder", str(Path("runs").absolute()),
                 "--model.rewards", f"[{__name__}.raises]"]) == 1  # fmt: skip
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert "reward 'raises' raised KeyError: 'by hand'" in line


def in_a_process(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "grpo_lightning", *words], capture_output=True, text=True, env=environment, timeout=120
    )


def test_one_line_from_a_process_of_its_own() -> None:
    done = in_a_process("fit", "--config", str(TINY), "--model.kl.name", "k22")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: model.kl: 'k22' is no known kl; did you mean 'k2'?\n"


def test_a_missing_run_is_one_line() -> None:
    done = in_a_process("test")
    assert (done.returncode, done.stdout) == (2, "")
    said = "run: None is not found: runs holds no run with a checkpoint; train one with fit, or name one with --run"
    assert done.stderr == f"error: {said}\n"


@pytest.mark.parametrize("words", [["plugins", "list"], ["plugins", "show", "clipped"], ["--help"], ["--version"]])
def test_light_commands_do_not_import_lightning(words: list[str]) -> None:
    code = (
        "import sys\n"
        "from grpo_lightning.cli.main import main\n"
        f"code = main({words!r})\n"
        "heavy = sorted({name.partition('.')[0] for name in sys.modules} & {'lightning', 'transformers', 'wandb'})\n"
        "sys.exit(code or ', '.join(heavy) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
