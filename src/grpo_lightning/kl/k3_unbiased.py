"""k3 weighted by the importance ratio."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor
from typing_extensions import override

from grpo_lightning.formula import Formula
from grpo_lightning.kl.base import KLEstimator, KLInputs
from grpo_lightning.kl.k3 import below_overflow, k3, with_slope


class UnbiasedK3(KLEstimator):
    """``rho k3`` a step, ``rho = pi_theta / pi_old`` with its gradient, ``k3 = exp(-d) - 1 + d``.

    Value: unbiased for ``KL(pi_theta || pi_ref)`` of each step under samples of the *old* policy, which draws the prefixes
    too. Both exponentials are held far below overflow.

    In the loss: its gradient is ``rho d grad log pi_theta``, that of k2 times ``rho``. Its expectation under samples of the
    old policy is the gradient of ``KL(pi_theta || pi_ref)`` of each step with its prefix held fixed, in the reverse
    direction, however far the policy has moved since. That needs the gradient of ``rho``: with a constant weight it would
    be the forward direction. Of the gradient of the divergence of whole rows it lacks the part through the choice of
    prefixes. In the reward ``rho`` is 1 and it is k3.

    Source: DeepSeek-AI (DeepSeek-V3.2), arXiv 2512.02556, eq. 7.

    Example:
        >>> import torch
        >>> from grpo_lightning.kl.base import KLInputs
        >>> now, reference, old = torch.tensor([-1.0]), torch.tensor([-1.5]), torch.tensor([-1.2])
        >>> round(UnbiasedK3()(KLInputs(now, reference, old)).item(), 4)
        0.1301
    """

    name = "k3_unbiased"
    differs: ClassVar[Mapping[str, str]] = {
        "TRL": "use_bias_correction_kl: the same, with the row's ratio for losses that have one a row",
        "slime": "use_unbiased_kl: the same with k1, k2 or k3; low_var_kl clamps the product to 10",
    }

    @override
    def __call__(self, inputs: KLInputs) -> Tensor:
        log_probs_S = inputs.log_probs_S.detach()
        ratio_S = below_overflow(log_probs_S - inputs.old_log_probs_S).exp()
        d_S = log_probs_S - inputs.reference_log_probs_S
        # The derivative of rho k3 is rho (k3 + 1 - exp(-d)) = rho d, of which the sum loses all digits where d << 0.
        return with_slope(ratio_S * k3(d_S), ratio_S * d_S, inputs.log_probs_S)

    @override
    def formula(self) -> Formula:
        return Formula(
            "k_it = rho_it (exp(-d_it) - 1 + d_it)",
            r"k_{i,t} = \rho_{i,t} \big(e^{-d_{i,t}} - 1 + d_{i,t}\big)",
            {"d_it": "log pi_theta - log pi_ref"},
            ("DeepSeek-AI (DeepSeek-V3.2), arXiv 2512.02556, eq. 7",),
        )
