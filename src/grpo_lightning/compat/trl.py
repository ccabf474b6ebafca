"""TRL's GRPOTrainer."""

from __future__ import annotations

from grpo_lightning.compat.preset import Departure, Followed, Preset

_FOLLOWS = (
    Followed("num_generations", 8, {"group_size": 8}),
    Followed("num_iterations", 1, {"epochs_per_rollout": 1}),
    Followed("max_completion_length", 512, {"generation.max_new_tokens": 512}),
    Followed("mask_truncated_completions", False, {"generation.mask_truncated": False}),
    Followed("temperature", 1.0, {"sampler.name": "temperature", "sampler.temperature": 1.0}),
    Followed(
        "scale_rewards",
        "group",
        {"advantage.name": "group_norm", "advantage.ddof": 1, "advantage.eps": 1e-4, "advantage.scale": "group"},
        "batch is scale: rollout, none is scale: none",
    ),
    Followed(
        "multi_objective_aggregation",
        "sum_then_normalize",
        {"advantage.name": "group_norm"},
        "normalize_then_sum is the advantage gdpo, with ddof 1 and eps 1e-4",
    ),
    Followed(
        "loss_type",
        "dapo",
        {"loss.name": "clipped", "aggregation": "token_mean"},
        "grpo is aggregation: sequence_mean_token_mean; dr_grpo is {name: constant_length, length: max_completion_length}; "
        "cispo, sapo and vespo are losses of that name, cispo and vespo with token_mean, sapo with sequence_mean_token_mean",
    ),
    Followed(
        "importance_sampling_level",
        "token",
        {"loss.name": "clipped"},
        "sequence with loss_type grpo is the loss gspo with sequence_mean_token_mean; with luspo it is the loss luspo",
    ),
    Followed("epsilon", 0.2, {"loss.epsilon_low": 0.2}),
    Followed(
        "epsilon_high",
        None,
        {"loss.epsilon_high": 0.2},
        "None stands for epsilon; for cispo it is the bound itself, so epsilon_high 5 is epsilon_high: 4 here",
    ),
    Followed("delta", None, {"loss.dual_clip": None}, "the same number, where it is at least 1 + epsilon_high"),
    Followed("beta", 0.0, {"kl.weight": 0.0, "kl.where": "loss"}, "model.kl.weight is all that has to be written"),
    Followed("use_bias_correction_kl", True, {"kl.name": "k3_unbiased"}, "false is k3"),
    Followed("vllm_importance_sampling_correction", True, {"correction.name": "icepop"}, "false is correction: null"),
    Followed(
        "vllm_importance_sampling_mode",
        "sequence_mask",
        {"correction.name": "icepop", "correction.level": "sequence", "correction.denominator": "original"},
        "token_mask is level: step; sequence_truncate and token_truncate are truncated_importance with cap and floor",
    ),
    Followed("vllm_importance_sampling_clip_max", 3.0, {"correction.beta": 3.0}),
    Followed("vllm_importance_sampling_clip_min", None, {"correction.alpha": 0.0}),
    Followed("off_policy_mask_threshold", None, {}, "a number is the correction off_policy_sequence_mask with that delta"),
    Followed(
        "top_entropy_quantile",
        1.0,
        {},
        "a share is the correction high_entropy with that fraction, over the whole update; theirs is over the "
        "micro-batches that run at one time",
    ),
    Followed(
        "entropy_coef",
        0.0,
        {},
        "a number is model.entropy with that weight under token_mean; their bonus is a mean over the tokens of a "
        "micro-batch whatever the loss_type",
    ),
    Followed("learning_rate", 1e-6, {"learning_rate": 1e-6}),
)  # fmt: skip

_DIFFERS = (
    Departure(
        "rewards of a group that are equal but not exact in float32 (seven times 0.7) have a standard deviation of rounding "
        "noise: advantages of 6e-4, whole groups in one direction",
        "exactly 0",
        "noise is no signal",
    ),
    Departure("rewards and advantages in float32", "in float64", "the difference is rounding, about 1e-7 of an advantage"),
    Departure(
        "a completion for which every reward returned None gets advantage 0 and its tokens are counted by the normaliser",
        "the row leaves the group's statistics and the normaliser",
        "a row without a reward says nothing, so it should not make the others smaller",
    ),
    Departure(
        "with mask_truncated_completions, grpo, dr_grpo, sapo and luspo divide by the rows including the masked ones",
        "masked rows leave the count of rows as they leave that of tokens",
        "the same mask in numerator and denominator",
    ),
    Departure(
        "where a rollout is trained in several updates (steps_per_generation above gradient_accumulation_steps), dapo, cispo "
        "and vespo divide each by the rollout's mean number of tokens an update",
        "each update by its own tokens",
        "each update is a mean over its own tokens",
    ),
    Departure(
        "loss_type bnpo divides each micro-batch by its own tokens, on each process",
        "token_mean, which is bnpo with one micro-batch on one process",
        "the gradient would depend on how the update is cut",
    ),
    Departure(
        "a rollout's rows are shuffled one by one over its updates",
        "groups stay whole in an update",
        "a group's advantages add up to 0, so that an update has no drift",
    ),
    Departure(
        "with importance_sampling_level sequence and beta above 0 the KL of each token is weighted by the row's ratio",
        "k3_unbiased weighs each step by its own ratio",
        "only the step's own ratio gives the gradient of the reverse divergence",
    ),
    Departure(
        "a delta below 1 + epsilon_high bounds the ratio where the advantage is positive, and where it is negative the bound "
        "is 1 + epsilon_high",
        "dual_clip bounds negative advantages only",
        "epsilon_high is the bound of positive ones",
    ),
    Departure(
        "the sampler's correction applies with vLLM only",
        "it always applies; where the engine samples with the trained weights, its weight is 1 up to rounding",
        "one setting for all engines; correction: null leaves it out",
    ),
    Departure(
        "top-p, top-k and min-p narrow the sampling, not the recomputed log-probabilities",
        "the support is replayed, so that an unchanged policy has ratio 1",
        "the ratio would be biased before the first update",
    ),
    Departure("dropout of the model stays on while it trains", "it is off", "the ratio would not be 1 at the first step"),
)  # fmt: skip

TRL = Preset(
    settings={
        "group_size": 8,
        "epochs_per_rollout": 1,
        "generation": {"max_new_tokens": 512, "mask_truncated": False},
        "sampler": {"name": "temperature", "temperature": 1.0},
        "advantage": {"name": "group_norm", "ddof": 1, "eps": 1e-4, "std_floor": 0.0, "scale": "group"},
        "loss": {
            "name": "clipped",
            "epsilon_low": 0.2,
            "epsilon_high": 0.2,
            "dual_clip": None,
            "log_ratio_limit": None,
        },
        "aggregation": "token_mean",
        "kl": {"name": "k3_unbiased", "weight": 0.0, "where": "loss"},
        "correction": {"name": "icepop", "alpha": 0.0, "beta": 3.0, "level": "sequence", "denominator": "original"},
        "learning_rate": 1e-6,
    },
    follows=_FOLLOWS,
    differs=_DIFFERS,
    version="trl 1.16.0, installed: grpo_config.py and grpo_trainer.py",
    elsewhere={
        "generation_batch_size / num_generations": "model.prompts_per_rollout",
        "steps_per_generation / gradient_accumulation_steps": "model.updates_per_rollout",
        "max_grad_norm (1.0)": "trainer.gradient_clip_val: 1.0",
        "lr_scheduler_type (linear)": "model.lr_scheduler: {name: LinearLR, start_factor: 1.0, end_factor: 0.0, "
        "total_iters: STEPS}",
        "weight_decay (0.0), adam_beta1 (0.9), adam_beta2 (0.999)": "nothing: these are the defaults here too",
    },
)
