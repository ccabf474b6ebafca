"""OpenRLHF's train_ppo_ray with the estimator group_norm."""

from __future__ import annotations

from grpo_lightning.compat.preset import Departure, Followed, Preset

_FOLLOWS = (
    Followed(
        "(fixed) group_norm: deviation of the sample, 1e-9 added",
        1e-9,
        {"advantage.name": "group_norm", "advantage.ddof": 1, "advantage.eps": 1e-9, "advantage.scale": "group"},
        "dr_grpo is the advantage mean_centered, rloo is leave_one_out",
    ),
    Followed("reward.clip_range", (-10, 10), {"transforms": [{"name": "clip", "limit": 10.0}]},
             "it holds the normalised reward, which is the advantage, so it acts from groups of 102 on"),
    Followed("actor.policy_loss_type", "ppo", {"loss.name": "clipped"},
             "gspo is the loss gspo with sequence_mean_token_mean"),
    Followed("actor.eps_clip", 0.2, {"loss.epsilon_low": 0.2, "loss.epsilon_high": 0.2},
             "eps_clip_low_high gives both"),
    Followed("actor.dual_clip", None, {"loss.dual_clip": None}),
    Followed("(fixed) log-ratio held between -20 and 20", 20.0, {"loss.log_ratio_limit": 20.0}),
    Followed("(fixed) mean over the tokens of the whole batch", True, {"aggregation": "token_mean"}),
    Followed("algo.kl.use_loss", False, {"kl.where": "loss"},
             "the preset is for true, as in the GRPO and DAPO scripts; false is no setting here (see what differs)"),
    Followed("algo.kl.estimator", "k1", {"kl.name": "k3", "kl.limit": 10.0}, "k3 as in those scripts; k2 is k2"),
    Followed("algo.kl.init_coef", 0.01, {"kl.weight": 1e-3}, "1e-3 as in the DAPO script"),
    Followed("algo.advantage.is_correction_enable", False, {"correction": None},
             "true is truncated_importance with floor 0.5 and cap 5; icepop is the correction icepop"),
    Followed("actor.entropy_coef", None, {}, "a number is model.entropy with that weight"),
    Followed("train.max_epochs", 1, {"epochs_per_rollout": 1}),
    Followed("(fixed) truncated rows are trained", True, {"generation.mask_truncated": False}),
    Followed("rollout.temperature", 1.0, {"sampler.name": "temperature", "sampler.temperature": 1.0}),
    Followed("actor.adam.lr", 1e-6, {"learning_rate": 1e-6}),
)  # fmt: skip

_DIFFERS = (
    Departure(
        "algo.kl.use_loss false pays the KL step by step after the group's normalisation: a step's advantage is the row's, "
        "less the coefficient times the KL of all steps from it on",
        "no setting; kl: {name: k1, where: reward} subtracts the whole row's KL before the normalisation",
        "no estimator here adds a KL to advantages that are normalised already; reinforce_plus_plus, which has such a "
        "return, normalises after it",
    ),
    Departure(
        "rewards of a group that are equal but not exact in float32 (seven times 0.7) have a standard deviation of rounding "
        "noise, and with 1e-9 added it is divided by noise: advantages of 0.9, whole groups in one direction",
        "exactly 0",
        "noise is no signal",
    ),
    Departure("rewards in float32", "statistics in float64", "the difference is rounding"),
    Departure(
        "releases without the batch's token count divide each micro-batch by its own tokens",
        "token_mean over the update",
        "the gradient would depend on how the update is cut",
    ),
    Departure(
        "values of k1 and k2 held between -10 and 10",
        "k1 has no limit; k2 and k3 have one",
        "nothing of a usable run lies beyond",
    ),
    Departure(
        "seq-mask-tis keeps rows by the geometric mean of their ratios and multiplies by the steps' own, without a cap",
        "{name: product, parts: [sequence_rejection, truncated_importance]} with a cap of your choice",
        "a weight without a bound",
    ),
    Departure("gspo with the sampler's correction takes the ratio to the sampler in the surrogate itself",
              "the correction multiplies the term", "one meaning of old"),
    Departure("rows are shuffled one by one over the updates of a rollout", "groups stay whole in an update",
              "a group's advantages add up to 0, so that an update has no drift"),
    Departure("the last incomplete micro-batch of a rollout is dropped", "every row is trained", "rows are costly"),
)  # fmt: skip

OPENRLHF = Preset(
    settings={
        "epochs_per_rollout": 1,
        "generation": {"mask_truncated": False},
        "sampler": {"name": "temperature", "temperature": 1.0},
        "advantage": {"name": "group_norm", "ddof": 1, "eps": 1e-9, "std_floor": 0.0, "scale": "group"},
        "transforms": [{"name": "clip", "limit": 10.0}],
        "loss": {
            "name": "clipped",
            "epsilon_low": 0.2,
            "epsilon_high": 0.2,
            "dual_clip": None,
            "log_ratio_limit": 20.0,
        },
        "aggregation": "token_mean",
        "kl": {"name": "k3", "log_ratio_limit": None, "limit": 10.0, "weight": 1e-3, "where": "loss"},
        "correction": None,
        "learning_rate": 1e-6,
    },
    follows=_FOLLOWS,
    differs=_DIFFERS,
    version="OpenRLHF/OpenRLHF main, 2026 (options with dots, loss divided by the batch's tokens): openrlhf/models/loss.py and "
    "openrlhf/cli/train_ppo_ray.py; openrlhf/trainer/ppo_utils/experience_maker.py at 89308a0, openrlhf/models/utils.py "
    "at 473f61b, openrlhf/trainer/ray/ppo_actor.py at c250c21",
    elsewhere={
        "rollout.n_samples_per_prompt (1)": "model.group_size",
        "rollout.batch_size (1024)": "model.prompts_per_rollout",
        "rollout.batch_size * rollout.n_samples_per_prompt / train.batch_size (1024 / 128)": "model.updates_per_rollout",
        "rollout.max_new_tokens (what data.max_len, 2048, leaves)": "model.generation.max_new_tokens",
        "algo.advantage.estimator (gae)": "model.advantage: this preset is for group_norm",
        "actor.max_norm (1.0)": "trainer.gradient_clip_val: 1.0",
        "actor.adam.betas (0.9, 0.95)": "model.optimizer: {name: AdamW, lr: 1e-6, weight_decay: 0.0, betas: [0.9, 0.95]}",
        "actor.lr_scheduler (cosine_with_min_lr), actor.lr_warmup_ratio (0.03)": "model.lr_scheduler",
    },
)
