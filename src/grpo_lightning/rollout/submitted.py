"""A rollout whose prompts are drawn, and which may be sampled already."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from grpo_lightning.policies.base import Policy
from grpo_lightning.rollout import world
from grpo_lightning.rollout.play import Group
from grpo_lightning.rollout.played import Played

GroupMaker = Callable[[int, tuple[str, int]], Group]
"""Makes the group of an ordinal from a (data set, index)."""


class Submitted:
    """A rollout between its prompts being drawn and its rows being scored.

    Args:
        rollout: Its index.
        prompts: (data set, index) of every group, all ranks.
        version: Updates that the weights had seen when it was submitted.
    """

    def __init__(self, rollout: int, prompts: list[tuple[str, int]], version: int) -> None:
        self.rollout, self.prompts, self.version = rollout, prompts, version
        self._played: Played | None = None
        self._error: Exception | None = None
        self._thread: threading.Thread | None = None

    def begin(self, play: Callable[[], Played]) -> None:
        """Let ``play`` sample this rank's rows in a thread of its own, which talks to no other rank."""

        def run() -> None:
            try:
                self._played = play()
            except Exception as error:  # raised where the rollout is waited for
                self._error = error

        self._thread = threading.Thread(target=run, name=f"rollout-{self.rollout}", daemon=True)
        self._thread.start()

    def settle(self) -> None:
        """Wait until nothing of it is sampled any more."""
        if self._thread is not None:
            self._thread.join()

    def played(self) -> Played | None:
        """What was sampled ahead, once that is over; ``None`` if nothing was.

        Raises:
            Exception: What sampling raised.
        """
        self.settle()
        if self._error is not None:
            raise self._error
        return self._played

    def state_dict(self) -> dict[str, Any]:
        """Its prompts, and the rows of this rank if sampling has come to an end; waits for it."""
        self.settle()
        played = None if self._played is None else self._played.state_dict()
        return {"rollout": self.rollout, "prompts": self.prompts, "version": self.version, "played": played}

    @classmethod
    def from_state_dicts(
        cls,
        states: Sequence[Mapping[str, Any]],
        group: GroupMaker,
        policy: Policy,
    ) -> Submitted:
        """The inverse for this rank, of the states of all ranks that saved. Where one of them has no rows, all are asked
        for again."""
        first = states[0]
        submitted = cls(first["rollout"], [(name, index) for name, index in first["prompts"]], first["version"])
        if all(each["played"] is not None for each in states):
            own = [group(ordinal, submitted.prompts[ordinal]) for ordinal in world.block(len(submitted.prompts))]
            submitted._played = Played.from_state_dicts([each["played"] for each in states], own, policy)
        return submitted
