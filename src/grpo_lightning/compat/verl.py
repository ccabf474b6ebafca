"""verl's actor with adv_estimator grpo."""

from __future__ import annotations

from grpo_lightning.compat.preset import Departure, Followed, Preset

_FOLLOWS = (
    Followed(
        "algorithm.norm_adv_by_std_in_grpo",
        True,
        {"advantage.name": "group_norm", "advantage.ddof": 1, "advantage.eps": 1e-6, "advantage.scale": "group"},
        "false is scale: none",
    ),
    Followed("actor.policy_loss.loss_mode", "vanilla", {"loss.name": "clipped"}),
    Followed("actor.clip_ratio_low", 0.2, {"loss.epsilon_low": 0.2}),
    Followed("actor.clip_ratio_high", 0.2, {"loss.epsilon_high": 0.2}),
    Followed("actor.clip_ratio_c", 3.0, {"loss.dual_clip": 3.0}),
    Followed("(fixed) log-ratio held between -20 and 20", 20.0, {"loss.log_ratio_limit": 20.0}),
    Followed(
        "actor.loss_agg_mode",
        "token-mean",
        {"aggregation": "token_mean"},
        "seq-mean-token-mean, seq-mean-token-sum and token-sum are sequence_mean_token_mean, sequence_mean_token_sum and "
        "token_sum; seq-mean-token-sum-norm is {name: constant_length, length: loss_scale_factor}",
    ),
    Followed("actor.use_kl_loss", False, {"kl.weight": 0.0, "kl.where": "loss"},
             "true is model.kl.weight: kl_loss_coef (0.001 by default)"),
    Followed(
        "actor.kl_loss_type",
        "low_var_kl",
        {"kl.name": "k3", "kl.log_ratio_limit": 20.0, "kl.limit": 10.0},
        "kl, abs and mse are k1, abs and k2",
    ),
    Followed("algorithm.use_kl_in_reward", False, {"kl.where": "loss"},
             "true is kl: {name: k1, weight: kl_coef, where: reward}"),
    Followed("algorithm.rollout_correction.rollout_is", None, {"correction": None},
             "token and sequence are truncated_importance with that level and cap: rollout_is_threshold (2 by default)"),
    Followed("actor.entropy_coeff", 0, {}, "a number is model.entropy with that weight"),
    Followed("actor.ppo_epochs", 1, {"epochs_per_rollout": 1}),
    Followed("data.max_response_length", 512, {"generation.max_new_tokens": 512}),
    Followed("rollout.temperature", 1.0, {"sampler.name": "temperature", "sampler.temperature": 1.0}),
    Followed("actor.optim.lr", 1e-6, {"learning_rate": 1e-6}),
)  # fmt: skip

_DIFFERS = (
    Departure(
        "a group of one keeps its raw reward as its advantage",
        "0, counted; a group_size of 1 with this advantage is an error",
        "a row alone has nothing to be compared with",
    ),
    Departure(
        "rewards of a group that are equal but not exact in float32 have a standard deviation of rounding noise; with eps 1e-6 "
        "advantages of 0.06 come of it",
        "exactly 0",
        "noise is no signal",
    ),
    Departure("scores in float32", "statistics in float64", "the difference is rounding"),
    Departure("seq-mean-token-sum-norm divides by the width of the batch unless loss_scale_factor is set",
              "constant_length asks for the length", "the scale would depend on the batch"),
    Departure(
        "the seq-mean modes divide by all rows of the mini-batch, those without a trainable token among them",
        "rows without a trainable step are not counted",
        "they have no mean",
    ),
    Departure(
        "with a sampler's rejection (rollout_rs) the mask shrinks before the count",
        "sequence_rejection leaves the count as it is unless denominator: remaining is set",
        "the choice is a setting of the correction",
    ),
    Departure("kl_loss_type k3+ holds the log-ratio between -20 and 20 and the value below 10", "k3_plus has no limits",
              "nothing of a usable run lies beyond"),
    Departure(
        "with trainer.balance_batch, on by default, rows are dealt to the ranks by their length",
        "groups stay whole in an update",
        "a group's advantages add up to 0, so that an update has no drift",
    ),
)  # fmt: skip

VERL = Preset(
    settings={
        "epochs_per_rollout": 1,
        "generation": {"max_new_tokens": 512, "mask_truncated": False},
        "sampler": {"name": "temperature", "temperature": 1.0},
        "advantage": {"name": "group_norm", "ddof": 1, "eps": 1e-6, "std_floor": 0.0, "scale": "group"},
        "loss": {"name": "clipped", "epsilon_low": 0.2, "epsilon_high": 0.2, "dual_clip": 3.0, "log_ratio_limit": 20.0},
        "aggregation": "token_mean",
        "kl": {"name": "k3", "log_ratio_limit": 20.0, "limit": 10.0, "weight": 0.0, "where": "loss"},
        "correction": None,
        "learning_rate": 1e-6,
    },
    follows=_FOLLOWS,
    differs=_DIFFERS,
    version="verl-project/verl main, August 2026: verl/trainer/ppo/core_algos.py and verl/trainer/config/actor/actor.yaml at "
    "018f23b, verl/workers/utils/losses.py at 02de5fe, verl/trainer/config/ppo_trainer.yaml at 05a1edd",
    elsewhere={
        "rollout.n (1)": "model.group_size",
        "data.train_batch_size (1024)": "model.prompts_per_rollout",
        "data.train_batch_size / actor.ppo_mini_batch_size (4)": "model.updates_per_rollout",
        "algorithm.adv_estimator (gae)": "model.advantage: this preset is for grpo",
        "actor.optim.clip_grad (1.0)": "trainer.gradient_clip_val: 1.0",
        "actor.optim.weight_decay (0.01)": "model.optimizer: {name: AdamW, lr: 1e-6, weight_decay: 0.01}",
    },
)
