"""Off-policy corrections: weights for what the sampler and the trainer disagree on.

To add one more: a file of its own here with a subclass of :class:`~grpo_lightning.corrections.base.Correction`, its
name in ``builtins.py``, a line in this file, and a test in ``tests/unit/corrections``. A pip package registers its
own with the hook ``grpo_register_correction``.
"""

from grpo_lightning.corrections.base import Correction, CorrectionInputs
from grpo_lightning.corrections.truncated_importance import TruncatedImportance

__all__ = ["Correction", "CorrectionInputs", "TruncatedImportance"]
