"""NeMo-RL's GRPO."""

from __future__ import annotations

from grpo_lightning.compat.preset import Departure, Followed, Preset

_FOLLOWS = (
    Followed("grpo.num_generations_per_prompt", 16, {"group_size": 16}),
    Followed("grpo.overlong_filtering", False, {"generation.mask_truncated": False}),
    Followed("policy.generation.temperature", 1.0, {"sampler.name": "temperature", "sampler.temperature": 1.0}),
    Followed("loss_fn.ratio_clip_min", 0.2, {"loss.name": "clipped", "loss.epsilon_low": 0.2}),
    Followed("loss_fn.ratio_clip_max", 0.2, {"loss.epsilon_high": 0.2}),
    Followed("loss_fn.ratio_clip_c", None, {"loss.dual_clip": None}),
    Followed("loss_fn.token_level_loss", True, {"aggregation": "token_mean"}, "false is sequence_mean_token_mean"),
    Followed("loss_fn.sequence_level_importance_ratios", False, {"loss.name": "clipped"},
             "true is the loss gspo with sequence_mean_token_mean"),
    Followed("loss_fn.use_cispo", False, {"loss.name": "clipped"}, "true is the loss cispo with token_mean"),
    Followed("loss_fn.reference_policy_kl_penalty", 0.01, {"kl.weight": 0.01, "kl.where": "loss"}),
    Followed("loss_fn.reference_policy_kl_type", "k3", {"kl.name": "k3_unbiased"},
             "the KL has the gradient of the sampling probability too, which is that of k3_unbiased with one update a "
             "rollout; releases before that had the plain k3 with kl_input_clamp_value as log_ratio_limit and "
             "kl_output_clamp_value as limit"),
    Followed("loss_fn.use_importance_sampling_correction", False, {"correction": None},
             "true with truncated_importance_sampling_type tis is truncated_importance, with icepop it is icepop"),
    Followed("policy.optimizer.kwargs.lr", 5e-6, {"learning_rate": 5e-6}),
)  # fmt: skip

_DIFFERS = (
    Departure(
        "normalize_rewards with use_leave_one_out_baseline, both on by default: a row is compared with the mean of the others "
        "and divided by the standard deviation of the others, if that is above 0",
        "refused: the person has to choose an advantage",
        "unbounded and discontinuous: of the rewards 1, 0, 0, 0 the first gets 1, and of 1, 0, 0, 0.001 it gets 1728",
    ),
    Departure(
        "the deviation is the root of a difference of float32 means, mean of squares minus square of mean: for equal rewards "
        "that are not exact it is rounding noise, up to 3e-4 for eight times 0.7",
        "two passes in float64, and exactly 0 for equal rewards",
        "noise is no signal",
    ),
    Departure("completions of equal prompts are one group", "a group is what was sampled for one prompt drawn",
              "two draws of a prompt are two groups"),
    Departure(
        "kl_input_clamp_value 20 and kl_output_clamp_value 10 hold the log-ratio to the reference and the product of weight "
        "and KL, without a gradient beyond",
        "k3_unbiased has no limits; k3 with log_ratio_limit: 20 and limit: 10 has them, without the gradient of the "
        "sampling probability",
        "a step differs only where the reference finds it over thirteen times likelier than the policy does",
    ),
    Departure(
        "in the second and later updates of a rollout the KL's weight still has the value 1",
        "k3_unbiased weighs by the ratio to the policy that drew the rollout",
        "the same with one update a rollout, which is the default; else only the ratio makes it unbiased",
    ),
    Departure("1e-8 is added to every count that is divided by", "nothing", "a count of 0 divides nothing"),
)  # fmt: skip

NEMO_RL = Preset(
    settings={
        "group_size": 16,
        "generation": {"mask_truncated": False},
        "sampler": {"name": "temperature", "temperature": 1.0},
        "loss": {"name": "clipped", "epsilon_low": 0.2, "epsilon_high": 0.2, "dual_clip": None, "log_ratio_limit": None},
        "aggregation": "token_mean",
        "kl": {"name": "k3_unbiased", "weight": 0.01, "where": "loss"},
        "correction": None,
        "learning_rate": 5e-6,
    },
    follows=_FOLLOWS,
    differs=_DIFFERS,
    version="NVIDIA-NeMo/RL main, 2026: nemo_rl/algorithms/loss/loss_functions.py at 006907a, "
    "nemo_rl/algorithms/advantage_estimator.py at 00925dd, nemo_rl/algorithms/utils.py; examples/configs/grpo_math_1B.yaml "
    "at 00294d9",
    elsewhere={
        "grpo.num_prompts_per_step (32)": "model.prompts_per_rollout",
        "grpo.num_prompts_per_step * grpo.num_generations_per_prompt / policy.train_global_batch_size (1)":
        "model.updates_per_rollout",
        "policy.max_total_sequence_length (512)": "model.generation.max_new_tokens, which counts the completion alone",
        "policy.max_grad_norm (1.0)": "trainer.gradient_clip_val: 1.0",
        "policy.optimizer.kwargs.weight_decay (0.01)": "model.optimizer: {name: AdamW, lr: 5e-6, weight_decay: 0.01}",
        "policy.scheduler (50 steps from a tenth of the rate)": "model.lr_scheduler: {name: LinearLR, start_factor: 0.1, "
        "total_iters: 50}",
    },
    undecided={
        "advantage": (
            "its default divides by the standard deviation of the other rows (leave-one-out), which is unbounded and "
            "jumps, and is not offered",
            "write model.advantage: leave_one_out (its grpo.normalize_rewards: false), or {name: group_norm, ddof: 1, "
            "eps: 1e-6} (its grpo.use_leave_one_out_baseline: false)",
        )
    },
)  # fmt: skip
