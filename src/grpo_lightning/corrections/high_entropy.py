"""Learning only where the policy hesitates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.corrections.base import Correction, CorrectionInputs
from grpo_lightning.errors import require, require_range
from grpo_lightning.formula import Formula, number
from grpo_lightning.functional.share import share

TIE = 1e-6
"""Share of an entropy that two equal ones may differ by when their rows are laid out in another way."""


class HighEntropyMask(Correction):
    """1 at steps whose entropy is at least ``H*``, 0 at all others; ``H*`` is the entropy that the top ``fraction`` of the
    update's steps reaches.

    Of the ``T`` trainable steps of the whole update on all ranks, ``H*`` is the entropy of rank ``1 + floor(fraction
    (T - 1))`` from the top: the steps that reach the linearly interpolated ``(1 - fraction)`` quantile. Steps that tie with
    ``H*`` are all kept, so the choice knows no order; so are those below it by less than a millionth of it, for equal contexts
    have equal entropies but for the rounding of the batch that they were run in. Where more than the fraction is kept for that
    reason, as when most entropies are exactly 0, so be it. At least one step is kept. The entropy is that of the distribution
    that the policy chooses from as the update begins.

    Source: Wang et al., arXiv 2506.01939, fraction 0.2. The paper takes the fraction of each batch and divides by the number
    of all steps, which ``denominator="original"`` does: with a mean over steps the loss has about ``fraction`` of its terms
    and the same divisor. ``remaining`` divides by the number of steps that are kept.

    Args:
        fraction: Share of steps to keep, above 0 and at most 1.
        denominator: Whether aggregations count all steps (``original``) or those kept (``remaining``).

    Example:
        >>> import torch
        >>> from grpo_lightning.corrections.high_entropy import CorrectionInputs, HighEntropyMask
        >>> zero, entropy = torch.zeros(4), torch.tensor([0.1, 2.0, 0.3, 1.5])
        >>> steps = CorrectionInputs(zero, zero, zero.long(), torch.tensor([4]), functionals={"entropy": entropy})
        >>> HighEntropyMask(fraction=0.5)(steps).tolist()
        [0.0, 1.0, 0.0, 1.0]
    """

    name = "high_entropy"
    off_policy = False
    level = "step"
    functionals = frozenset({"entropy"})
    whole_update = True
    differs: ClassVar[Mapping[str, str]] = {
        "TRL": "takes the quantile over the micro-batches that the ranks run at one time, so the steps that are kept change "
        "with the micro-batches.",
        "ms-swift": "takes the quantile over a micro-batch.",
    }

    def __init__(self, *, fraction: float = 0.2, denominator: Literal["original", "remaining"] = "original") -> None:
        require_range("fraction", fraction, low=0.0, high=1.0, low_open=True)
        known = ("original", "remaining")
        require(denominator in known, "denominator", denominator, "is no count", "set 'original' or 'remaining'")
        self.fraction, self.denominator = fraction, denominator

    @override
    def __call__(self, inputs: CorrectionInputs) -> Tensor:
        """[S] weights 0 or 1, without gradient; normalised by nothing."""
        entropy_S = inputs.functionals["entropy"].detach()
        steps = entropy_S.shape[0]
        if steps == 0:
            return torch.zeros_like(inputs.old_log_probs_S)
        kept = 1 + share(self.fraction, steps - 1)
        least = entropy_S.kthvalue(steps - kept + 1).values
        return (entropy_S >= least - TIE * least).to(inputs.old_log_probs_S.dtype)

    @override
    def formula(self) -> Formula:
        """``c_it``, with the object's number."""
        rank = f"1 + floor({number(self.fraction)} (T - 1))"
        count = "all steps" if self.denominator == "original" else "the steps with c_it = 1"
        return Formula(
            text="c_it = 1 if H_it >= H* else 0",
            latex=r"c_{i,t} = \mathbb{1}[H_{it} \ge H^*]",
            symbols={
                "H_it": "entropy of the step's distribution",
                "H*": f"the entropy of rank {rank} from the top, of the update's T steps; aggregations count {count}",
            },
            sources=("Wang et al., arXiv 2506.01939",),
        )
