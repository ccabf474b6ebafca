"""Advantage transforms: credit after the estimator, in the order in which the configuration lists them.

To add one more: a file of its own here with a subclass of :class:`~grpo_lightning.transforms.base.Transform`, its
name in ``builtins.py``, a line in this file, and a test in ``tests/unit/transforms``. A pip package registers its own
with the hook ``grpo_register_transform``.
"""

from grpo_lightning.transforms.base import Transform
from grpo_lightning.transforms.clip import ClipAdvantage

__all__ = ["ClipAdvantage", "Transform"]
