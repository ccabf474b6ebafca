"""Groups without signal are drawn again."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.errors import require, require_range
from grpo_lightning.selectors.base import Selection, Selector
from grpo_lightning.selectors.drop_zero_signal import signal
from grpo_lightning.types import RolloutTable


class Resample(Selector):
    """Asks for every group whose valid rows all have advantage 0 to be drawn again, at most ``max_attempts`` times.

    Groups with signal are kept as they are. With ``prompts="fresh"`` this is DAPO's dynamic sampling, bounded:
    batches stay full, and prompts that the policy always or never solves cost samples but no updates. With ``"same"``
    a prompt gets further chances, which gives prompts near those ends more weight than they have in the data.

    Source: Yu et al. (DAPO), arXiv 2503.14476, for fresh prompts; the paper draws without a bound.

    Args:
        prompts: ``same``: draw again with the group's own prompt; ``fresh``: with the next prompt of the curriculum.
        max_attempts: Rounds of drawing again, at least 1.
        then: What happens to groups that are still silent after the last round: ``drop`` or ``keep``.

    Example:
        >>> from grpo_lightning.selectors.resample import Resample
        >>> Resample(prompts="fresh", max_attempts=2).then
        'drop'
    """

    name = "resample"

    def __init__(
        self,
        *,
        prompts: Literal["same", "fresh"] = "same",
        max_attempts: int = 3,
        then: Literal["drop", "keep"] = "drop",
    ) -> None:
        require(prompts in ("same", "fresh"), "prompts", prompts, "is no choice", "set 'same' or 'fresh'")
        require(then in ("drop", "keep"), "then", then, "is no choice", "set 'drop' or 'keep'")
        require_range("max_attempts", max_attempts, low=1)
        self.prompts, self.max_attempts, self.then = prompts, max_attempts, then

    @override
    def __call__(self, advantages_R: Tensor, table: RolloutTable, attempt: int) -> Selection:
        signal_R = signal(advantages_R, table)
        keep_R = table.valid_R.clone() if self.then == "keep" else table.valid_R & signal_R
        silent_R = ~signal_R if attempt < self.max_attempts else torch.zeros_like(signal_R)
        return Selection(keep_R, torch.unique(table.group_R[silent_R]), self.prompts)
