"""Several corrections at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor
from typing_extensions import override

from grpo_lightning.corrections.base import Correction, CorrectionInputs
from grpo_lightning.corrections.sequence_rejection import SequenceRejection
from grpo_lightning.corrections.truncated_importance import TruncatedImportance
from grpo_lightning.errors import require
from grpo_lightning.formula import Formula


class ProductCorrection(Correction):
    """``c_it = prod_p c_it^(p)``: the product of the parts' weights, each computed from the same steps.

    A step that one part leaves out is out. Nothing is normalised beyond what the parts say of themselves. The product
    goes with losses of one term a row if all its parts do, sees the whole update if one must, and counts the remaining
    steps if one part does: then all steps that the product leaves out are not counted.

    Args:
        parts: Corrections, at least one.

    Example:
        >>> import torch
        >>> from grpo_lightning.corrections import CorrectionInputs, IcePop, ProductCorrection, SequenceRejection
        >>> inputs = CorrectionInputs(torch.tensor([-1.0, -3.0]), torch.full((2,), -1.0), torch.arange(2), torch.ones(2))
        >>> ProductCorrection(parts=[SequenceRejection(low=0.1, high=2.0), IcePop()])(inputs).tolist()
        [1.0, 0.0]
    """

    name = "product"
    example: ClassVar[Mapping[str, Any]] = {"parts": [TruncatedImportance(), SequenceRejection(low=0.5, high=2.0)]}

    def __init__(self, *, parts: list[Correction]) -> None:
        require(len(parts) > 0, "parts", parts, "is empty", "name at least one correction")
        self.parts = list(parts)
        self.level = "sequence" if all(part.level == "sequence" for part in parts) else "step"
        self.functionals = frozenset().union(*(part.functionals for part in parts))
        self.whole_update = any(part.whole_update for part in parts)
        self.off_policy = any(part.off_policy for part in self.parts)
        self.denominator = "remaining" if any(part.denominator == "remaining" for part in parts) else "original"

    @override
    def __call__(self, inputs: CorrectionInputs) -> Tensor:
        """[S] weights, without gradient; normalised by nothing more than the parts are."""
        weights_S = self.parts[0](inputs)
        for part in self.parts[1:]:
            weights_S = weights_S * part(inputs)
        return weights_S

    @override
    def formula(self) -> Formula | None:
        formulas = [formula for part in self.parts if (formula := part.formula()) is not None]
        if len(formulas) < len(self.parts):
            return None
        if len(formulas) == 1:
            return formulas[0]
        symbols: dict[str, str] = {}
        for formula in formulas:
            symbols |= formula.symbols
        return Formula(
            "c_it = " + " * ".join(f"({formula.text.partition(' = ')[2]})" for formula in formulas),
            "c_{i,t} = " + r" \cdot ".join(rf"\left({each.latex.partition(' = ')[2]}\right)" for each in formulas),
            symbols,
            tuple(dict.fromkeys(source for formula in formulas for source in formula.sources)),
        )

    @override
    def state_dict(self) -> dict[str, Any]:
        states = [part.state_dict() for part in self.parts]
        return {"parts": states} if any(states) else {}

    @override
    def load_state_dict(self, state: dict[str, Any]) -> None:
        for part, own in zip(self.parts, state.get("parts", []), strict=False):
            part.load_state_dict(own)
