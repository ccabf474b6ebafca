"""Checks of curricula. They are bound to two data sets: ``easy`` with 5 rows and ``hard`` with 7."""

from __future__ import annotations

import copy

from grpo_lightning.curricula.base import Curriculum
from grpo_lightning.testing.check import Specimen, checks, expect
from grpo_lightning.testing.difference import difference
from grpo_lightning.testing.global_state import unchanged_globals
from grpo_lightning.testing.tables import reward_table
from grpo_lightning.types import RolloutTable

SIZES = {"easy": 5, "hard": 7}
SEED = 17
Drawn = list[tuple[str, int]]


def check_draws_as_many_as_asked(specimen: Specimen) -> None:
    """It draws as many prompts as it is asked for, more than there are rows too."""
    curriculum = _bound(specimen)
    for n in (1, 4, sum(SIZES.values()), 30):
        drawn = len(curriculum.draw(n))
        expect(
            drawn == n,
            f"draw({n}) gives {n} prompts",
            f"{drawn}",
            "begin again where the rows end: a run has no epochs",
        )


def check_draws_rows_there_are(specimen: Specimen) -> None:
    """Every prompt is the name of a data set with the index of a row in it."""
    for name, index in _bound(specimen).draw(60):
        good = name in SIZES and type(index) is int and 0 <= index < SIZES[name]
        expect(good, "A prompt is (data set, index) with an index below the set's size", f"{(name, index)!r} of {SIZES}",
               "take sizes from self.sizes, which bind gives")  # fmt: skip


def check_draws_alike_for_equal_seeds(specimen: Specimen) -> None:
    """Two that are built and bound alike draw the same: every rank draws for itself, and all must agree."""
    found = _unlike(specimen)
    expect(found is None, "Equal seeds and equal histories give equal draws", str(found),
           "draw from a function of the seed that bind gives (grpo_lightning.functional.seeding)")  # fmt: skip


def check_goes_on_from_its_state(specimen: Specimen) -> None:
    """Resumed from its state in the middle of a run it draws what it would have drawn."""
    if _unlike(specimen) is not None:
        return
    curriculum = _bound(specimen)
    _run(curriculum, 3)
    resumed: Curriculum = specimen.make()
    resumed.bind(dict(SIZES), SEED)
    resumed.load_state_dict(copy.deepcopy(curriculum.state_dict()))
    found = difference(_run(curriculum, 3), _run(resumed, 3), "draws")
    expect(found is None, "A resumed curriculum goes on as the uninterrupted one", str(found),
           "give in state_dict whatever draw and observe change, and take it all back in load_state_dict")  # fmt: skip


def check_gives_a_state_that_stays(specimen: Specimen) -> None:
    """What ``state_dict`` returned does not change when it draws on."""
    curriculum = _bound(specimen)
    _run(curriculum, 2)
    state = curriculum.state_dict()
    before = copy.deepcopy(state)
    _run(curriculum, 2)
    found = difference(before, state, "state")
    expect(found is None, "A state that was given out stays as it was", str(found),
           "return copies, such as dict(self.counts): the last update's state is kept meanwhile")  # fmt: skip


def check_leaves_what_it_is_given_alone(specimen: Specimen) -> None:
    """It changes nothing in the sizes, the prompts and the table that it is given."""
    curriculum: Curriculum = specimen.make()
    sizes, table = dict(SIZES), _table(0)
    curriculum.bind(sizes, SEED)
    drawn = curriculum.draw(5)
    before = (SIZES, list(drawn), copy.deepcopy(table))
    curriculum.observe(drawn, table)
    curriculum.draw(5)
    found = difference(before, (sizes, drawn, table), "(sizes, prompts, table)")
    expect(found is None, "A curriculum changes nothing that it is given", str(found), "copy before you write")


def check_leaves_the_process_alone(specimen: Specimen) -> None:
    """Drawing and learning change nothing that the process shares: random states, default dtype, grad mode, ..."""
    with unchanged_globals("drawing"):
        _run(_bound(specimen), 2)


def _unlike(specimen: Specimen) -> str | None:
    """Where the draws of two that are built and bound alike differ."""
    return difference(_run(_bound(specimen), 3), _run(_bound(specimen), 3), "draws")


def _bound(specimen: Specimen) -> Curriculum:
    curriculum: Curriculum = specimen.make()
    curriculum.bind(dict(SIZES), SEED)
    return curriculum


def _table(rollout: int) -> RolloutTable:
    """How five prompts went."""
    return reward_table([[float((rollout + group + member) % 3 == 0) for member in range(3)] for group in range(5)])


def _run(curriculum: Curriculum, rollouts: int) -> list[Drawn]:
    """What is drawn in some rollouts, each of which it learns from."""
    drawn = []
    for rollout in range(rollouts):
        drawn.append(curriculum.draw(5))
        curriculum.observe(list(drawn[-1]), _table(rollout))
    return drawn


CHECKS = checks(
    check_draws_as_many_as_asked,
    check_draws_rows_there_are,
    check_draws_alike_for_equal_seeds,
    check_goes_on_from_its_state,
    check_gives_a_state_that_stays,
    check_leaves_what_it_is_given_alone,
    check_leaves_the_process_alone,
)
