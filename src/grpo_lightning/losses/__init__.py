"""Policy losses: the surrogate whose gradient moves the policy.

To add one more: a file of its own here with a subclass of :class:`~grpo_lightning.losses.base.PolicyLoss` that
declares its scope, its name in ``builtins.py``, a line in this file, and a test with a slow float64 twin in
``tests/unit/losses``. A pip package registers its own with the hook ``grpo_register_loss``.
"""

from grpo_lightning.losses.base import LossInputs, LossTerms, PolicyLoss
from grpo_lightning.losses.clipped import ClippedPolicyLoss

__all__ = ["ClippedPolicyLoss", "LossInputs", "LossTerms", "PolicyLoss"]
