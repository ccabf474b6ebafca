from __future__ import annotations

from grpo_lightning.cli.lightning_cli import our_error, trainer_error
from grpo_lightning.errors import ConfigError


def test_our_own_error_is_found_under_what_wraps_it() -> None:
    own, wrapper = ConfigError("model.x", 1, "is bad", "mend it"), ValueError("Does not validate")
    wrapper.__cause__ = own
    assert our_error(wrapper) is own
    assert our_error(own) is own


def test_what_a_parser_says_becomes_one_line() -> None:
    error = our_error(ValueError('Parser key "model.x":\n  Expected an int.\n  Got: y'))
    assert str(error) == "model.x: None is refused by Lightning: Expected an int. Got: y; change it"
    assert str(our_error(TypeError("two\nlines"))) == "config: None is refused by Lightning: two lines; change it"


def test_what_the_trainer_refuses_names_the_setting() -> None:
    given = {"max_steps": 3, "precision": "x", "devices": 2}
    named = trainer_error(ValueError("`devices` do not fit precision."), given)
    assert str(named) == "trainer.devices: 2 is refused by Lightning: `devices` do not fit precision; set another value"
    other = trainer_error(ValueError("It is late."), {"devices": 2})
    assert str(other) == "trainer: {'devices': 2} is refused by Lightning: It is late; change it"
