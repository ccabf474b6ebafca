from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from grpo_lightning.callbacks.progress_line import ProgressLine, duration
from grpo_lightning.errors import ConfigError
from helpers.run_reports import ReportingModule, make_trainer


def plain(tmp_path: Path, module: ReportingModule, callback: ProgressLine, max_steps: int, **options: int) -> list[str]:
    callback.console = Console(file=StringIO(), width=40)
    make_trainer(tmp_path, module, [callback], max_steps=max_steps, **options).fit(module)
    return callback.console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


def test_a_plain_line_shows_means_since_the_last(tmp_path: Path) -> None:
    lines = plain(tmp_path, ReportingModule(), ProgressLine(every=2), 4)
    assert [line.split("  ")[0] for line in lines] == ["grpo 1/4", "grpo 2/4", "grpo 4/4"]
    # Rollout r has mean reward 4.9 / 8 + r; the last line covers rollouts 2 and 3.
    rewards = [float(re.findall(r"reward (\S+)", line)[0]) for line in lines]
    assert rewards == pytest.approx([4.9 / 8, 4.9 / 8 + 1, 4.9 / 8 + 2.5], abs=6e-4)
    shown = "kl 0.1250  entropy 1.500  zero signal 67%  length 4.0  generate 0.50s  reward 0.25s  update 2.00s"
    assert all(shown in line for line in lines)
    assert re.search(r"eta 0:0\d$", lines[0])
    assert "eta" not in lines[-1]


def test_three_hundred_updates_print_about_twenty_lines(tmp_path: Path) -> None:
    lines = plain(tmp_path, ReportingModule(micro_batches=1), ProgressLine(), 300)
    assert len(lines) == 21
    assert lines[-1].startswith("grpo 300/300")


def test_the_warm_up_shows_its_loss_only(tmp_path: Path) -> None:
    lines = plain(tmp_path, ReportingModule(warmup=2), ProgressLine(every=1), 3)
    assert lines[0] == "warmup 1/3  loss 2.0000  update 0.50s"
    assert lines[1] == "warmup 2/3  loss 2.0000  update 0.50s"
    assert "loss" not in lines[2]
    assert "update 2.00s" in lines[2]


def test_what_the_line_knows_of_a_rollout_stays_between_rollouts(tmp_path: Path) -> None:
    lines = plain(tmp_path, ReportingModule(updates_per_rollout=2), ProgressLine(every=1), 2)
    assert [("reward 0.61" in line) for line in lines] == [True, True]


def test_evaluations_have_their_line(tmp_path: Path) -> None:
    lines = plain(tmp_path, ReportingModule(validates=True), ProgressLine(every=10), 4, validate_every=2)
    assert "validation 2  held_out  accuracy 0.250  reward 0.750" in lines
    assert "validation 4  held_out  accuracy 0.375  reward 0.750" in lines


def test_without_an_end_there_is_a_line_every_ten_updates(tmp_path: Path) -> None:
    module, callback = ReportingModule(micro_batches=1), ProgressLine()
    callback.console = Console(file=StringIO())
    trainer = make_trainer(tmp_path, module, [callback], max_steps=-1)
    trainer.limit_train_batches = 20
    trainer.fit_loop.max_epochs = 1
    trainer.fit(module)
    lines = callback.console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [line.split("  ")[0] for line in lines] == ["grpo 1", "grpo 10", "grpo 20"]


def test_a_terminal_gets_one_line_that_is_renewed(tmp_path: Path) -> None:
    module, callback = ReportingModule(), ProgressLine()
    callback.console = Console(file=StringIO(), force_terminal=True, width=200)
    make_trainer(tmp_path, module, [callback], max_steps=5).fit(module)
    text = callback.console.file.getvalue()  # type: ignore[attr-defined]
    assert all(f"grpo {update}/5" in text for update in range(1, 6))
    assert text.count("\n") == 1


def test_standard_error_is_the_default(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    module = ReportingModule()
    make_trainer(tmp_path, module, [ProgressLine()], max_steps=1).fit(module)
    captured = capfd.readouterr()
    assert "grpo 1/1  reward 0.61" in captured.err
    assert "grpo 1/1" not in captured.out


def test_a_failing_run_gives_the_terminal_back(tmp_path: Path) -> None:
    class Failing(ReportingModule):
        def on_train_batch_start(self, batch: object, batch_idx: int) -> None:
            if batch_idx == 3:
                raise RuntimeError("stop")

    module, callback = Failing(), ProgressLine()
    callback.console = Console(file=StringIO(), force_terminal=True, width=200)
    trainer = make_trainer(tmp_path, module, [callback], max_steps=5)
    with pytest.raises(RuntimeError, match="stop"):
        trainer.fit(module)
    assert callback.console.file.getvalue().endswith("\x1b[?25h")  # type: ignore[attr-defined]


def test_durations() -> None:
    assert [duration(seconds) for seconds in (0.4, 59.6, 3599, 3661)] == ["0:00", "1:00", "59:59", "1:01:01"]


def test_every_must_be_positive() -> None:
    with pytest.raises(ConfigError, match=r"^every: 0 "):
        ProgressLine(every=0)
