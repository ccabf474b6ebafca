"""Every hostile program is contained: nothing outside has changed, nothing is left, and no score is earned."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile_programs import ATTACKS, CHEATS, Attack
from hostile_setting import ROOMY_SECONDS, Setting


@pytest.fixture
def setting(tmp_path: Path) -> Iterator[Setting]:
    made = Setting(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack.name.replace(" ", "_") for attack in ATTACKS])
def test_contained(attack: Attack, setting: Setting) -> None:
    began = time.monotonic()
    outcome = setting.attack(attack)
    took = time.monotonic() - began
    assert outcome.status in attack.statuses, outcome
    assert b"ESCAPED" not in outcome.stdout + outcome.stderr, outcome
    assert attack.printed in outcome.stdout.decode(), outcome
    assert took < ROOMY_SECONDS + 10  # the rest is a busy machine starting and ending processes
    assert setting.state() == setting.before
    assert not setting.heard()
    assert not setting.left_processes()


def test_a_fair_solution_passes_where_the_cheats_do_not(setting: Setting) -> None:
    fair = Attack("fair", "", "def solve(x): return 7 * x", ("passed",), CHEATS[0].test)
    assert setting.attack(fair).status == "passed"
