from __future__ import annotations

import pytest

from grpo_lightning import __version__
from grpo_lightning.cli import main as module
from grpo_lightning.cli.main import DEBUG, main
from grpo_lightning.errors import ConfigError, DataError, GRPOError, NonFiniteError, PluginError, RewardError


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"grpo_lightning {__version__}\n"


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_overview(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert main(words) == 0
    text = capsys.readouterr().out
    for command in ("fit", "validate", "test", "predict", "plugins"):
        assert f"\n  {command} " in text


def test_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fti"]) == 2
    assert capsys.readouterr().err == "error: command: 'fti' is no command; did you mean 'fit'?\n"


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ConfigError("model.x", 3, "is bad", "set 4"), 2, "error: model.x: 3 is bad; set 4"),
        (
            DataError("data.train.path", "a", "is empty", "give more"),
            2,
            "error: data.train.path: 'a' is empty; give more",
        ),
        (PluginError("two of\na name"), 2, "error: two of a name"),
        (RewardError("reward 'a' raised\nKeyError"), 1, "error: reward 'a' raised KeyError"),
        (NonFiniteError("the loss is nan"), 1, "error: the loss is nan"),
        (KeyboardInterrupt(), 130, "\nstopped"),
    ],
)
def test_every_fault_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, line: str
) -> None:
    def raises(words: list[str]) -> int:
        raise error

    monkeypatch.setattr(module, "_dispatch", raises)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    assert main(["fit"]) == code
    assert capsys.readouterr().err == f"{line}\n"
    if isinstance(error, GRPOError):
        monkeypatch.setenv("LOCAL_RANK", "1")
        assert main(["fit"]) == code
        assert capsys.readouterr().err == "", "one rank speaks for all"
    monkeypatch.setenv(DEBUG, "1")
    with pytest.raises(type(error)):
        main(["fit"])


def test_what_is_no_fault_of_the_user_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(words: list[str]) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(module, "_dispatch", raises)
    with pytest.raises(ZeroDivisionError):
        main(["fit"])
