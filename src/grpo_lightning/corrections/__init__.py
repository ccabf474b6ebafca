"""Off-policy corrections: weights for what the sampler and the trainer disagree on.

To add one more: a file of its own here with a subclass of :class:`~grpo_lightning.corrections.base.Correction`, its
name in ``builtins.py``, a line in this file, and a test in ``tests/unit/corrections``. A pip package registers its
own with the hook ``grpo_register_correction``.
"""

from grpo_lightning.corrections.base import Correction, CorrectionInputs
from grpo_lightning.corrections.icepop import IcePop
from grpo_lightning.corrections.off_policy_sequence_mask import OffPolicySequenceMask
from grpo_lightning.corrections.product import ProductCorrection
from grpo_lightning.corrections.sequence_rejection import SequenceRejection
from grpo_lightning.corrections.truncated_importance import TruncatedImportance
from grpo_lightning.corrections.tv_mask import TVMask

__all__ = [
    "Correction",
    "CorrectionInputs",
    "IcePop",
    "OffPolicySequenceMask",
    "ProductCorrection",
    "SequenceRejection",
    "TVMask",
    "TruncatedImportance",
]
