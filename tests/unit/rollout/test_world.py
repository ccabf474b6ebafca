"""What ranks share, where there is one, and where there are more."""

from __future__ import annotations

import pytest

from grpo_lightning.errors import GRPOError
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
    monkeypatch.setattr(world, "gather", lambda value: [value, "RewardError: theirs", "ValueError: a third"])
    with pytest.raises(GRPOError, match="another rank stopped: RewardError: theirs"):
        world.raise_together(None)
    with pytest.raises(ValueError, match="mine"):
        world.raise_together(own)
