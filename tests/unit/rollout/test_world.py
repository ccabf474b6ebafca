"""What ranks share, where there is one, and where there are more."""

from __future__ import annotations

import contextlib

import pytest

from grpo_lightning.errors import ConfigError, DataError, GRPOError, RewardError
from grpo_lightning.rollout import world


def test_one_process() -> None:
    assert not world.active()
    assert (world.world_size(), world.rank()) == (1, 0)
    assert world.gather("x") == ["x"]
    assert world.block(5) == range(5)


@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
@pytest.mark.parametrize("n", [0, 1, 2, 6, 7, 20])
def test_blocks_cover_everything_once_and_evenly(monkeypatch: pytest.MonkeyPatch, ranks: int, n: int) -> None:
    monkeypatch.setattr(world, "world_size", lambda: ranks)
    blocks = [list(world.block(n, rank)) for rank in range(ranks)]
    assert [item for block in blocks for item in block] == list(range(n))
    sizes = [len(block) for block in blocks]
    assert max(sizes) - min(sizes) <= 1


def test_raise_together(monkeypatch: pytest.MonkeyPatch) -> None:
    world.raise_together(None)
    own = ValueError("mine")
    with pytest.raises(ValueError, match="mine"):
        world.raise_together(own)


def ranks(monkeypatch: pytest.MonkeyPatch, errors: list[Exception | None]) -> list[Exception | None]:
    """What each of two ranks raises that come with these errors."""
    found: list[Exception | None] = []
    described: list[object] = []
    monkeypatch.setattr(world, "gather", lambda value: described.append(value) or [value])
    for error in errors:
        with contextlib.suppress(Exception):
            world.raise_together(error)
    for rank, error in enumerate(errors):
        monkeypatch.setattr(world, "gather", lambda value: described)
        monkeypatch.setattr(world, "rank", lambda rank=rank: rank)
        try:
            world.raise_together(error)
            found.append(None)
        except Exception as raised:
            found.append(raised)
    return found


def test_together() -> None:
    done: list[int] = []
    world.together(lambda: done.append(1))
    assert done == [1]
    with pytest.raises(ZeroDivisionError):
        world.together(lambda: 1 / 0)


class PluginOwnError(GRPOError):
    """An error that another process may not know."""


@pytest.mark.parametrize(
    ("error", "elsewhere", "text"),
    [
        (RewardError("reward 'x' hangs"), RewardError, "reward 'x' hangs"),
        (ConfigError("a", object, "is wrong", "mend it"), ConfigError, "a: \"<class 'object'>\" is wrong; mend it"),
        (DataError("a", 1, "is wrong", "mend it"), DataError, "a: 1 is wrong; mend it"),
        (PluginOwnError("x"), GRPOError, "x"),
        (ZeroDivisionError("by nothing"), GRPOError, "ZeroDivisionError: by nothing"),
    ],
)
def test_every_rank_raises_the_error_of_the_first(
    monkeypatch: pytest.MonkeyPatch, error: Exception, elsewhere: type, text: str
) -> None:
    for errors, own in (([error, None], 0), ([None, error], 1), ([error, ValueError("a second")], 0)):
        found = ranks(monkeypatch, errors)
        assert found[own] is error
        assert type(found[1 - own]) is elsewhere
        assert str(found[1 - own]) == text
    assert ranks(monkeypatch, [None, None]) == [None, None]
