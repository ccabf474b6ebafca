"""The objective of one micro-batch: policy term, KL term, and what is reported of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from grpo_lightning.aggregations.base import Aggregation
from grpo_lightning.corrections.base import Correction, CorrectionInputs
from grpo_lightning.entropy_bonus import EntropyBonus
from grpo_lightning.errors import ConfigError, near_matches
from grpo_lightning.functional.groups import Groups
from grpo_lightning.kl.base import KLInputs, KLTerm
from grpo_lightning.kl.controller import AdaptiveKL
from grpo_lightning.losses.base import LossInputs, LossTerms, PolicyLoss, bounded_exp
from grpo_lightning.policies.base import Policy
from grpo_lightning.rollout.buffer import Buffer, MicroBatch, Preview
from grpo_lightning.rollout.preview import preview
from grpo_lightning.rollout.statistics import UpdateStatistics
from grpo_lightning.steps import UpdateSteps


@dataclass(frozen=True)
class Objective:
    """What is minimised: ``sum_i w_i sum_t (c_it term_it + beta KL_it - alpha H_it)`` over an update's rows on all ranks.

    ``w_i`` comes with the micro-batch and holds the whole update's normaliser, so micro-batches only sum. ``c`` is the
    correction's weight, ``H`` the entropy of the step's distribution.
    """

    loss: PolicyLoss
    aggregation: Aggregation
    kl: KLTerm | None
    correction: Correction | None
    entropy: EntropyBonus | None = None
    kl_controller: AdaptiveKL | None = field(init=False, default=None)
    """Holds the KL's coefficient where the KL has a target."""

    def __post_init__(self) -> None:
        kl = self.kl
        if kl is not None and kl.target is not None:
            controller = AdaptiveKL(weight=kl.weight, target=kl.target, horizon=kl.horizon)
            object.__setattr__(self, "kl_controller", controller)
        if self.entropy is not None and not self.entropy.active:
            object.__setattr__(self, "entropy", None)

    def check(self) -> None:
        """Refuse combinations that have no meaning.

        Raises:
            ConfigError: Naming the setting and the reason.
        """
        legal, loss, correction = self.loss.aggregations, self.loss, self.correction
        if legal is not None and self.aggregation.name not in legal:
            because = f": {loss.why_aggregations}" if loss.why_aggregations else ""
            raise ConfigError("model.aggregation", self.aggregation.name, f"has no meaning with loss {loss.name!r}{because}",
                              near_matches(self.aggregation.name, legal))  # fmt: skip
        if correction is not None and correction.off_policy and loss.weighs_sampler:
            raise ConfigError("model.correction", correction.name, f"would weigh the sampler a second time: loss {loss.name!r} "
                              "holds its own weight against the policy that sampled", "leave model.correction out")  # fmt: skip
        if correction is not None and loss.scope == "group":
            raise ConfigError("model.correction", correction.name, f"has no place in loss {loss.name!r}, whose one term a "
                              "group mixes its rows", "leave it out, or take a loss with a term a row or step")  # fmt: skip
        if correction is not None and loss.scope == "sequence" and correction.level != "sequence":
            raise ConfigError("model.correction", correction.name,
                              f"weighs steps and loss {loss.name!r} has one term a {loss.scope}",
                              "set its level to sequence if it has one, or leave it out")  # fmt: skip
        if self.kl is not None and self.kl.where == "reward" and self.kl.estimator.functionals:
            raise ConfigError("model.kl.where", "reward", f"does not go with estimator {self.kl.estimator.name!r}: a step's "
                              "divergence does not depend on what was chosen there, so as a reward its own gradient is lost",
                              "set it to loss, or use k1")  # fmt: skip

    @property
    def kl_in_loss(self) -> bool:
        """Whether a KL term is part of the loss."""
        return self.kl is not None and self.kl.in_loss

    @property
    def needs_reference(self) -> bool:
        """Whether a reference policy is kept."""
        return self.kl is not None and self.kl.weight > 0

    @property
    def needs_reference_log_probs(self) -> bool:
        """Whether the buffer must hold log-probabilities under the reference."""
        return self.kl_in_loss and self.kl is not None and "exact_kl" not in self.kl.estimator.functionals

    @property
    def needs_preview(self) -> bool:
        """Whether a pass over the whole update is made before its first micro-batch."""
        return self.loss.scope == "update" or (self.correction is not None and self.correction.whole_update)

    @property
    def runs_silent_rows(self) -> bool:
        """Whether rows of advantage 0 have a part in the loss too.

        They have one in a KL term, in an entropy bonus, in the term of their group, in what is decided over a whole update,
        and in a loss that says so or looks at more than log-probabilities.
        """
        loss = self.loss
        own = loss.runs_silent or loss.scope == "group" or bool(loss.functionals)
        return own or self.kl_in_loss or self.entropy is not None or self.needs_preview

    @property
    def functionals(self) -> set[str]:
        """What the policy is asked for beside log-probabilities, with gradient."""
        wanted = set(self.loss.functionals)
        if self.kl_in_loss and self.kl is not None:
            wanted |= self.kl.estimator.functionals
        return wanted | ({"entropy"} if self.entropy is not None else set())

    def kl_weight(self) -> float:
        """Coefficient of the KL, now."""
        if self.kl_controller is not None:
            return self.kl_controller.weight
        return 0.0 if self.kl is None else self.kl.weight

    def preview(self, policy: Policy, buffer: Buffer, update: int, address: tuple[int, int]) -> Preview:
        """Decide over a whole update what its losses and corrections ask for; a collective.

        Args:
            policy: The policy.
            buffer: The rollout on this rank.
            update: Index of the update in the rollout.
            address: (seed, rollout), of which draws are a function.
        """
        correction = self.correction
        planned = self.loss.scope == "update"
        whole = correction is not None and correction.whole_update
        names = set(self.loss.functionals) if planned else set()
        names |= correction.functionals if correction is not None and whole else set()

        def correct(steps: UpdateSteps) -> Tensor:
            assert correction is not None
            return correction(
                CorrectionInputs(
                    steps.old_log_probs_S,
                    steps.behaviour_log_probs_S,
                    steps.row_S,
                    steps.lengths_R,
                    steps.log_probs_S,
                    steps.advantages_S,
                    steps.functionals,
                )
            )

        remaining = correction is not None and whole and correction.denominator == "remaining"
        return preview(
            policy,
            buffer,
            update,
            sorted(names),
            address,
            plan=self.loss.plan if planned else None,
            correct=correct if whole else None,
            recount=self.aggregation if remaining else None,
        )

    def __call__(self, policy: Policy, micro: MicroBatch, statistics: UpdateStatistics, scale: float = 1.0) -> Tensor:
        """The summed terms of a micro-batch times ``scale``, with gradient; statistics of its steps are added."""
        rows, correction = micro.rollouts, self.correction
        functionals, observed = self.functionals, {"entropy"}
        if correction is not None and micro.correction_S is None:
            observed |= correction.functionals
        output = policy(rows, functionals, observed=tuple(sorted(observed)))
        log_probs_S = output["log_prob"]
        inputs = self._inputs(micro, log_probs_S, output)
        weights_R = micro.weights_R.to(log_probs_S)
        terms = self.loss(inputs)
        policy_weights_R = weights_R if micro.policy_weights_R is None else micro.policy_weights_R.to(log_probs_S)
        correction_S = self._correction(micro, inputs, output, statistics)
        loss = policy_loss = self._policy_loss(terms, inputs, policy_weights_R, correction_S)
        statistics.count(len(rows), log_probs_S.shape[0])
        statistics.total("train/policy_loss", policy_loss)
        _observe(statistics, terms, inputs, output["entropy"])
        if self.kl_in_loss and self.kl is not None:
            reference_S = micro.reference_log_probs_S
            kl_S = self.kl.estimator(
                KLInputs(
                    log_probs_S,
                    inputs.old_log_probs_S if reference_S is None else reference_S.to(log_probs_S),
                    inputs.old_log_probs_S,
                    output.get("exact_kl"),
                )
            )
            kl_loss = self.kl_weight() * (weights_R[inputs.row_S] * kl_S).sum()
            statistics.mean("policy/kl", kl_S)
            statistics.total("train/kl_loss", kl_loss)
            loss = loss + kl_loss
        if self.entropy is not None:
            entropy_loss = -self.entropy.coefficient * (weights_R[inputs.row_S] * output["entropy"]).sum()
            statistics.total("train/entropy_loss", entropy_loss)
            loss = loss + entropy_loss
        loss = scale * loss
        statistics.total("train/loss", loss)
        return loss

    def _inputs(self, micro: MicroBatch, log_probs_S: Tensor, output: dict[str, Tensor]) -> LossInputs:
        rows, trainable_S = micro.rollouts, micro.rollouts.trainable_S
        if micro.keep is not None:
            micro.keep(log_probs_S.detach())
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
            plan_S=None if micro.plan_S is None else micro.plan_S.to(log_probs_S.device),
            rewards_R=None if micro.rewards_R is None else micro.rewards_R.to(log_probs_S),
            behaviour_version_R=rows.version_R.to(log_probs_S.device),
            old_version=micro.old_version,
            version=micro.version,
        )

    def _correction(
        self, micro: MicroBatch, inputs: LossInputs, output: dict[str, Tensor], statistics: UpdateStatistics
    ) -> Tensor | None:
        """[S] weights of the correction."""
        if self.correction is None:
            return None
        if micro.correction_S is not None:
            weight_S = micro.correction_S.to(inputs.old_log_probs_S)
        else:
            weight_S = self.correction(
                CorrectionInputs(
                    inputs.old_log_probs_S,
                    inputs.behaviour_log_probs_S,
                    inputs.row_S,
                    inputs.lengths_R,
                    inputs.log_probs_S.detach(),
                    inputs.advantages_S,
                    {name: output[name].detach() for name in self.correction.functionals},
                )
            ).detach()
        statistics.mean("policy/correction", weight_S)
        statistics.mean("policy/correction_zero_fraction", (weight_S == 0).to(weight_S.dtype))
        return weight_S

    def _policy_loss(
        self, terms: LossTerms, inputs: LossInputs, weights_R: Tensor, correction_S: Tensor | None
    ) -> Tensor:
        if self.loss.scope in ("step", "update"):
            weights_S = weights_R[inputs.row_S]
            return (terms.terms * (weights_S if correction_S is None else weights_S * correction_S)).sum()
        # A term of a row counts as that term at each of its steps, a term of a group at each step of its rows.
        unit_R = weights_R * inputs.lengths_R
        if self.loss.scope == "sequence":
            weight_R = unit_R if correction_S is None else unit_R * inputs.mean_rows(correction_S)
            return (terms.terms * weight_R).sum()
        groups = Groups.of(inputs.group_R.cpu())
        unit_G = unit_R.new_zeros(len(groups)).index_add(0, groups.index_R.to(unit_R.device), unit_R)
        return (terms.terms * unit_G).sum()


@torch.no_grad()
def _observe(statistics: UpdateStatistics, terms: LossTerms, inputs: LossInputs, entropy_S: Tensor) -> None:
    log_ratio_S = inputs.log_probs_S.detach() - inputs.old_log_probs_S
    ratio_S = bounded_exp(log_ratio_S)
    for name, values_S in {"ratio": ratio_S, **terms.step_metrics}.items():
        statistics.mean(f"policy/{name}", values_S)
    statistics.mean("policy/entropy", entropy_S)
    statistics.mean("policy/old_kl", torch.where(log_ratio_S < 1, torch.expm1(log_ratio_S), ratio_S - 1) - log_ratio_S)
    statistics.mean("policy/sampler_kl", inputs.behaviour_log_probs_S - inputs.old_log_probs_S)
    statistics.largest("policy/ratio_max", ratio_S)
    statistics.smallest("policy/ratio_min", ratio_S)
