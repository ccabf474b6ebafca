"""KL estimators: how far the policy is from its reference.

``d`` stands for ``log pi_theta - log pi_ref`` of a step. As a *value* under the policy's own samples ``k1``, ``k3``,
``k3_unbiased`` and ``exact`` have expectation ``KL(pi_theta || pi_ref)``. As a *loss* they differ, since a loss is
differentiated with the samples held fixed, and in the reward, which is not differentiated at all: each class says what
its gradient is in expectation, per step with the prefix held fixed and for whole rows.

To add one more: a file of its own here with a subclass of :class:`~grpo_lightning.kl.base.KLEstimator`, its name in
``builtins.py``, a line in this file, and a test of value and gradient against enumeration in ``tests/unit/kl``. A pip
package registers its own with the hook ``grpo_register_kl``.
"""

from grpo_lightning.kl.absolute import AbsoluteKL
from grpo_lightning.kl.base import KLEstimator, KLInputs, KLTerm
from grpo_lightning.kl.controller import AdaptiveKL
from grpo_lightning.kl.exact import ExactKL
from grpo_lightning.kl.k1 import K1
from grpo_lightning.kl.k2 import K2
from grpo_lightning.kl.k3 import K3
from grpo_lightning.kl.k3_plus import K3Plus
from grpo_lightning.kl.k3_unbiased import UnbiasedK3

__all__ = [
    "K1",
    "K2",
    "K3",
    "AbsoluteKL",
    "AdaptiveKL",
    "ExactKL",
    "K3Plus",
    "KLEstimator",
    "KLInputs",
    "KLTerm",
    "UnbiasedK3",
]
