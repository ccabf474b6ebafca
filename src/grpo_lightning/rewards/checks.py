"""What the list of rewards says about their calls, checked before weights load."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_lightning.errors import ConfigError
from grpo_lightning.rewards.arguments import asks_for_base
from grpo_lightning.rewards.cache import check_cache
from grpo_lightning.rewards.composer import counts
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.workers import pickled


def check_calls(entries: Sequence[RewardEntry], setting: str) -> None:
    """Check that every reward can be called as its entry says.

    Args:
        entries: The list of rewards.
        setting: Name of the list, for messages.

    Raises:
        ConfigError: If one cannot be sent to a process, its scores cannot be cached, or it asks for what other rewards gave
            where there are none.
    """
    gives_base = any(counts(entry) and not asks_for_base(entry) for entry in entries)
    for index, entry in enumerate(entries):
        try:
            check_cache(entry)
            if entry.isolation == "process":
                pickled(entry.reward)
            if asks_for_base(entry) and not gives_base:
                raise ConfigError("reward", entry.reward.label, "asks for base_rewards, and no other reward of the list counts",
                                  "add one that does not ask for them")  # fmt: skip
        except ConfigError as error:
            raise error.under(f"{setting}.{index}") from None
