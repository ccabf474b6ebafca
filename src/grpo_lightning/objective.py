"""The objective of one micro-batch: policy term, KL term, and what is reported of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from grpo_lightning.aggregations.base import Aggregation
from grpo_lightning.corrections.base import Correction, CorrectionInputs
from grpo_lightning.errors import ConfigError, near_matches
from grpo_lightning.functional.groups import Groups
from grpo_lightning.kl.base import KLInputs, KLTerm
from grpo_lightning.losses.base import LossInputs, LossTerms, PolicyLoss
from grpo_lightning.policies.base import Policy
from grpo_lightning.rollout.buffer import MicroBatch
from grpo_lightning.rollout.statistics import UpdateStatistics


@dataclass(frozen=True)
class Objective:
    """What is minimised: ``sum_i w_i sum_t (c_it term_it + beta KL_it)`` over the rows of an update on all ranks.

    ``w_i`` comes with the micro-batch and holds the whole update's normaliser, so micro-batches only sum.
    """

    loss: PolicyLoss
    aggregation: Aggregation
    kl: KLTerm | None
    correction: Correction | None

    def check(self) -> None:
        """Refuse combinations that have no meaning.

        Raises:
            ConfigError: Naming the setting and the reason.
        """
        legal = self.loss.aggregations
        if legal is not None and self.aggregation.name not in legal:
            raise ConfigError("model.aggregation", self.aggregation.name, f"has no meaning with loss {self.loss.name!r}",
                              near_matches(self.aggregation.name, legal))  # fmt: skip
        if self.loss.scope == "update":
            raise ConfigError("model.loss", self.loss.name, "needs a pass over the whole update, which no buffer makes",
                              "use a loss of scope step, sequence or group")  # fmt: skip
        if self.loss.scope != "step" and getattr(self.correction, "level", "sequence") != "sequence":
            raise ConfigError("model.correction", getattr(self.correction, "name", None),
                              f"weighs steps and loss {self.loss.name!r} has one term a {self.loss.scope}",
                              "set its level to sequence")  # fmt: skip
        if self.kl is not None and self.kl.where == "reward" and self.kl.estimator.functionals:
            raise ConfigError("model.kl.where", "reward", f"does not go with estimator {self.kl.estimator.name!r}: a row's "
                              "reward is made from log-probabilities alone", "set it to loss, or use k1")  # fmt: skip

    @property
    def kl_in_loss(self) -> bool:
        """Whether a KL term is part of the loss."""
        return self.kl is not None and self.kl.where == "loss" and self.kl.weight > 0

    @property
    def needs_reference(self) -> bool:
        """Whether a reference policy is kept."""
        return self.kl is not None and self.kl.weight > 0

    @property
    def needs_reference_log_probs(self) -> bool:
        """Whether the buffer must hold log-probabilities under the reference."""
        return self.kl_in_loss and self.kl is not None and "exact_kl" not in self.kl.estimator.functionals

    @property
    def runs_silent_rows(self) -> bool:
        """Whether rows of advantage 0 have a part in the loss too.

        They have one in a KL term, in the term of their group, and in a loss that looks at more than log-probabilities
        (an entropy bonus does not ask for the advantage).
        """
        return self.kl_in_loss or self.loss.scope == "group" or bool(self.loss.functionals)

    def __call__(self, policy: Policy, micro: MicroBatch, statistics: UpdateStatistics) -> Tensor:
        """The summed terms of a micro-batch, with gradient; statistics of its steps are added."""
        rows = micro.rollouts
        functionals = set(self.loss.functionals)
        if self.kl_in_loss and self.kl is not None:
            functionals |= self.kl.estimator.functionals
        output = policy(rows, functionals, observed=("entropy",))
        log_probs_S = output["log_prob"]
        inputs = self._inputs(micro, log_probs_S, output)
        lengths_R = inputs.lengths_R
        weights_R = micro.weights_R.to(log_probs_S)
        terms = self.loss(inputs)
        policy_loss = self._policy_loss(terms, inputs, weights_R)
        statistics.count(lengths_R.shape[0], log_probs_S.shape[0])
        statistics.total("train/policy_loss", policy_loss)
        _observe(statistics, terms, inputs, output["entropy"])
        if not self.kl_in_loss or self.kl is None:
            statistics.total("train/loss", policy_loss)
            return policy_loss
        reference_S = micro.reference_log_probs_S
        kl_S = self.kl.estimator(
            KLInputs(
                log_probs_S,
                inputs.old_log_probs_S if reference_S is None else reference_S.to(log_probs_S),
                inputs.old_log_probs_S,
                output.get("exact_kl"),
            )
        )
        kl_loss = self.kl.weight * (weights_R[inputs.row_S] * kl_S).sum()
        statistics.mean("policy/kl", kl_S)
        statistics.total("train/kl_loss", kl_loss)
        statistics.total("train/loss", policy_loss + kl_loss)
        return policy_loss + kl_loss

    def _inputs(self, micro: MicroBatch, log_probs_S: Tensor, output: dict[str, Tensor]) -> LossInputs:
        rows, trainable_S = micro.rollouts, micro.rollouts.trainable_S
        old_S = log_probs_S.detach() if micro.old_log_probs_S is None else micro.old_log_probs_S.to(log_probs_S)
        return LossInputs(
            log_probs_S=log_probs_S,
            old_log_probs_S=old_S,
            behaviour_log_probs_S=rows.behaviour_log_probs_S[trainable_S].to(log_probs_S),
            advantages_S=micro.advantages_S.to(log_probs_S),
            row_S=rows.row_S[trainable_S].to(log_probs_S.device),
            lengths_R=rows.lengths_R.to(log_probs_S.device),
            group_R=rows.group_R.to(log_probs_S.device),
            functionals={name: output[name] for name in self.loss.functionals},
        )

    def _policy_loss(self, terms: LossTerms, inputs: LossInputs, weights_R: Tensor) -> Tensor:
        correction_S = None
        if self.correction is not None:
            correction_S = self.correction(
                CorrectionInputs(inputs.old_log_probs_S, inputs.behaviour_log_probs_S, inputs.row_S, inputs.lengths_R)
            ).detach()
        if self.loss.scope == "step":
            weights_S = weights_R[inputs.row_S]
            return (terms.terms * (weights_S if correction_S is None else weights_S * correction_S)).sum()
        # A term of a row counts as that term at each of its steps, a term of a group at each step of its rows.
        unit_R = weights_R * inputs.lengths_R
        if correction_S is not None:
            unit_R = unit_R * inputs.mean_rows(correction_S)
        if self.loss.scope == "sequence":
            return (terms.terms * unit_R).sum()
        groups = Groups.of(inputs.group_R.cpu())
        unit_G = unit_R.new_zeros(len(groups)).index_add(0, groups.index_R.to(unit_R.device), unit_R)
        return (terms.terms * unit_G).sum()


@torch.no_grad()
def _observe(statistics: UpdateStatistics, terms: LossTerms, inputs: LossInputs, entropy_S: Tensor) -> None:
    log_ratio_S = inputs.log_probs_S.detach() - inputs.old_log_probs_S
    ratio_S = log_ratio_S.exp()
    for name, values_S in {"ratio": ratio_S, **terms.step_metrics}.items():
        statistics.mean(f"policy/{name}", values_S)
    statistics.mean("policy/entropy", entropy_S)
    statistics.mean("policy/old_kl", torch.expm1(log_ratio_S) - log_ratio_S)
    statistics.mean("policy/sampler_kl", inputs.behaviour_log_probs_S - inputs.old_log_probs_S)
    statistics.largest("policy/ratio_max", ratio_S)
    statistics.smallest("policy/ratio_min", ratio_S)
