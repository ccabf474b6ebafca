"""Selectors: which groups train, and which are drawn again.

To add one more: a file of its own here with a subclass of :class:`~grpo_lightning.selectors.base.Selector`, its name in
``builtins.py``, a line in this file, and a test in ``tests/unit/selectors``. A pip package registers its own with the
hook ``grpo_register_selector``.
"""

from grpo_lightning.selectors.all_groups import AllGroups
from grpo_lightning.selectors.base import Selection, Selector
from grpo_lightning.selectors.drop_zero_signal import DropZeroSignal
from grpo_lightning.selectors.resample import Resample

__all__ = ["AllGroups", "DropZeroSignal", "Resample", "Selection", "Selector"]
