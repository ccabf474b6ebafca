"""Record what TRL computes on small rollouts: advantages, loss and gradient, for tests/integration/test_compat_trl.py.

TRL runs in an environment of its own, without this package, on a CPU:

    python3.11 -m venv trl-env
    trl-env/bin/pip install "torch==2.13.0" "trl==1.16.0"
    trl-env/bin/python benchmarks/compat_trl.py tests/data/trl_1_16.json

Every case goes through a GRPOTrainer with a tiny random model: the rewards through TRL's own scoring of completions, the
loss through TRL's own loss. What the model would say (log-probabilities under the current, old, sampling and reference
policy, and entropies) is put in its place; the current ones are a leaf, and their gradient is recorded. One case keeps the
model and records the gradient of its parameters.

Numbers are float64, but for what TRL itself holds in float32: rewards, advantages, and what its fused head makes of the
tiny model.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import transformers
import trl
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

VOCABULARY = 24
AFTERWARDS = ("beta", "use_vllm")
"""Settings that are laid on a trainer which is there already: their own loading asks for a hub or for an engine."""


def tokenizer() -> PreTrainedTokenizerFast:
    """Words w0, w1, ...; the last two ids are padding and end of sequence."""
    words = {f"w{index}": index for index in range(VOCABULARY - 2)} | {"<pad>": VOCABULARY - 2, "<eos>": VOCABULARY - 1}
    made = Tokenizer(models.WordLevel(words, unk_token="w0"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="<eos>")


def tiny_model(seed: int) -> LlamaForCausalLM:
    """A random Llama of about a thousand weights, in float64; weights have four digits, so that a file holds them."""
    torch.manual_seed(seed)
    config = LlamaConfig(vocab_size=VOCABULARY, hidden_size=8, intermediate_size=16, num_hidden_layers=1,
                         num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=64, eos_token_id=VOCABULARY - 1,
                         pad_token_id=VOCABULARY - 2, initializer_range=0.7, attn_implementation="sdpa")  # fmt: skip
    model = LlamaForCausalLM(config).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_((parameter * 1e4).round() / 1e4)
    return model


def numbers(count: int, low: float, high: float, generator: torch.Generator) -> list[float]:
    """Numbers of four digits."""
    drawn = torch.rand(count, generator=generator, dtype=torch.float64) * (high - low) + low
    return [round(each, 4) for each in drawn.tolist()]


def make_rollout(rewards: list[list[list[float | None]]], *, seed: int, truncated: bool = False) -> dict[str, Any]:
    """Rows of several prompts. ``rewards`` has an entry a group, a row and a reward function.

    Ratios to the old policy are between e^-0.7 and e^0.7, those to the sampler drift by row, and the third row of every
    group holds two steps of a tool.
    """
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for group, scores in enumerate(rewards):
        for member, score in enumerate(scores):
            length = 1 + (3 * group + 5 * member) % 7
            completion = torch.randint(0, VOCABULARY - 2, (length,), generator=generator).tolist()
            cut = truncated and (group + member) % 3 == 0
            if not cut:
                completion[-1] = VOCABULARY - 1
            trainable = [1] * length
            if member == 2 and length > 3:
                trainable[1:3] = [0, 0]
            current = numbers(length, -3.0, -0.05, generator)
            old = [a + b for a, b in zip(current, numbers(length, -0.7, 0.7, generator), strict=True)]
            drift = numbers(1, -0.35, 0.35, generator)[0]
            sampling = [a + drift + b for a, b in zip(old, numbers(length, -0.3, 0.3, generator), strict=True)]
            reference = [a + b for a, b in zip(current, numbers(length, -0.9, 0.9, generator), strict=True)]
            rows.append({
                "group": group, "rewards": score, "truncated": cut, "prompt": [1 + group, 5, 7][: 2 + group % 2],
                "completion": completion, "trainable": trainable, "current": current, "old": rounded(old),
                "sampling": rounded([a * m for a, m in zip(sampling, trainable, strict=True)]),
                "reference": rounded(reference), "entropy": numbers(length, 0.1, 3.0, generator),
            })  # fmt: skip
    return {"groups": len(rewards), "members": len(rewards[0]), "rows": rows}


def rounded(values: list[float]) -> list[float]:
    return [round(each, 4) for each in values]


def padded(rollout: dict[str, Any], name: str) -> Tensor:
    """[R, longest] float64, 0 where a row has ended."""
    rows = [torch.tensor(row[name], dtype=torch.float64) for row in rollout["rows"]]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def parts(settings: dict[str, Any], micro_batches: int) -> int:
    """Micro-batches of the whole rollout: more than those of an update where it is trained in several updates."""
    return int(settings.get("steps_per_generation", micro_batches))


def make_trainer(
    rollout: dict[str, Any], settings: dict[str, Any], micro_batches: int, model: LlamaForCausalLM, folder: str
) -> GRPOTrainer:
    """A trainer whose updates have ``micro_batches`` micro-batches."""
    rows = rollout["rows"]
    functions = []
    for which in range(len(rows[0]["rewards"])):

        def reward(completions: Any, scores: Any, which: int = which, **rest: Any) -> Any:
            return [row[which] for row in scores]

        reward.__name__ = f"reward_{which}"
        functions.append(reward)
    arguments = GRPOConfig(
        output_dir=folder, report_to="none", use_cpu=True, bf16=False, gradient_checkpointing=False,
        num_generations=rollout["members"], per_device_train_batch_size=len(rows) // parts(settings, micro_batches),
        gradient_accumulation_steps=micro_batches,
        **{name: value for name, value in settings.items() if name not in AFTERWARDS},
    )  # fmt: skip
    trainer = GRPOTrainer(model=model, reward_funcs=functions, args=arguments, processing_class=tokenizer(),
                          train_dataset=Dataset.from_list([{"prompt": "w1 w5"}] * len(rows)))  # fmt: skip
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = micro_batches
    for name in AFTERWARDS:
        setattr(trainer, name, settings.get(name, getattr(trainer, name)))

    def generate(prompts: list[str]) -> tuple[Any, ...]:
        sampling = [row["sampling"] for row in rows] if trainer.use_vllm else None
        return ([row["prompt"] for row in rows], [row["completion"] for row in rows], [row["trainable"] for row in rows],
                [""] * len(rows), sampling, {}, None, None)  # fmt: skip

    trainer._generate = generate
    return trainer


def record(
    name: str, rollouts: dict[str, Any], which: str, settings: dict[str, Any], micro_batches: int = 1
) -> dict[str, Any]:
    """One case, the first update of a rollout: a sum over its micro-batches, as backward sums their gradients."""
    rollout = rollouts[which]
    leaf = padded(rollout, "current").requires_grad_()
    reference = SimpleNamespace()
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(rollout, settings, micro_batches, tiny_model(0), folder)
    trainer.ref_model = reference
    shown: list[slice] = []

    def say(model: Any, *_: Any, compute_entropy: bool = False, **__: Any) -> tuple[Any, Any, None]:
        if compute_entropy:
            return leaf[shown[-1]], padded(rollout, "entropy")[shown[-1]], None
        return padded(rollout, "reference" if model is reference else "old"), None, None

    trainer._get_per_token_logps_and_entropies = say
    batch = score_batch(trainer, rollout)
    part = len(rollout["rows"]) // parts(settings, micro_batches)
    value = 0.0
    for index in range(micro_batches):
        rows = slice(index * part, (index + 1) * part)
        shown.append(rows)
        loss = trainer._compute_loss(trainer.model, part_of(batch, rows))
        loss.backward()
        value += loss.item()
    gradient = [
        leaf.grad[index, step].item()
        for index, row in enumerate(rollout["rows"])
        for step in range(len(row["completion"]))
    ]
    return {
        "name": name, "rollout": which, "settings": settings, "micro_batches": micro_batches, "rows": part * micro_batches,
        "num_items_in_batch": int(batch["num_items_in_batch"]), "advantages": short(batch["advantages"].tolist()),
        "value": value, "gradient": short(gradient),
    }  # fmt: skip


def score_batch(trainer: GRPOTrainer, rollout: dict[str, Any]) -> dict[str, Any]:
    rows = [{"prompt": "w1 w5", "scores": row["rewards"]} for row in rollout["rows"]]
    return trainer._generate_and_score_completions(rows)


def part_of(batch: dict[str, Any], rows: slice) -> dict[str, Any]:
    return {key: value[rows] if isinstance(value, Tensor) and value.dim() else value for key, value in batch.items()}


def record_model(rollout: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """The gradient of a tiny model's parameters; the old policy is another tiny model, and there is no sampler."""
    model, old, reference = tiny_model(0), tiny_model(0), tiny_model(0)
    weights = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for each in (old, reference):
            for parameter in each.parameters():
                parameter.add_(0.02 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(rollout, settings, 1, model, folder)
        answers = make_trainer(rollout, settings, 1, old, folder), make_trainer(rollout, settings, 1, reference, folder)
    trainer.ref_model = reference
    truly = trainer._get_per_token_logps_and_entropies

    def say(asked: Any, *rest: Any, compute_entropy: bool = False, **options: Any) -> tuple[Any, Any, Any]:
        if not compute_entropy:
            asked = answers[1].model if asked is reference else answers[0].model
        return truly(asked, *rest, compute_entropy=compute_entropy, **options)

    trainer._get_per_token_logps_and_entropies = say
    batch = score_batch(trainer, rollout)
    loss = trainer._compute_loss(trainer.model, batch)
    loss.backward()

    def rows(values: Tensor) -> list[list[float]]:
        lengths = [len(row["completion"]) for row in rollout["rows"]]
        return [short(values[index, :length].tolist(), 12) for index, length in enumerate(lengths)]

    return {
        "settings": settings, "weights": {name: short(value.flatten().tolist(), 6) for name, value in weights.items()},
        "config": {name: getattr(model.config, name) for name in (
            "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
            "num_key_value_heads", "max_position_embeddings", "eos_token_id", "pad_token_id")},
        "old": rows(batch["old_per_token_logps"]), "reference": rows(batch["ref_per_token_logps"]), "value": loss.item(),
        "gradient": {name: short(parameter.grad.flatten().tolist()) for name, parameter in model.named_parameters()},
    }  # fmt: skip


def short(values: list[float], digits: int = 10) -> list[float]:
    return [float(f"{each:.{digits}g}") for each in values]


ROLLOUTS = {
    "mixed": make_rollout(
        [
            [[1.0], [0.0], [0.0], [1.0]],
            [[0.25], [-0.5], [1.75], [0.125]],
            [[1.0], [1.0], [1.0], [1.0]],
            [[0.3], [0.1], [0.9], [0.2]],
        ],
        seed=1,
    ),
    "unanimous": make_rollout([[[0.1]] * 7, [[0.7]] * 7, [[1.0]] * 7, [[0.7]] * 6 + [[0.3]]], seed=2),
    "truncated": make_rollout([[[1.0], [0.0], [0.5], [0.5]], [[2.0], [1.0], [0.0], [0.0]]], seed=3, truncated=True),
    "abstaining": make_rollout([[[1.0], [None], [0.0], [0.5]], [[0.0], [1.0], [1.0], [None]]], seed=4),
    "two_rewards": make_rollout([[[1.0, 0.2], [0.0, 0.4], [0.0, 0.1], [1.0, 0.9]],
                                 [[0.0, 3.0], [1.0, 1.0], [1.0, 0.5], [1.0, 2.0]]], seed=5),
}  # fmt: skip
DECIDES = [
    "adam_beta1", "adam_beta2", "adam_epsilon", "beta", "delta", "disable_dropout", "entropy_coef", "epsilon",
    "epsilon_high", "gradient_accumulation_steps", "importance_sampling_level", "learning_rate", "loss_type",
    "lr_scheduler_type", "mask_truncated_completions", "max_completion_length", "max_grad_norm", "min_p",
    "multi_objective_aggregation", "num_generations", "num_iterations", "off_policy_mask_threshold",
    "per_device_train_batch_size", "repetition_penalty", "scale_rewards", "temperature", "top_entropy_quantile",
    "top_k", "top_p", "use_bias_correction_kl", "use_vllm", "vllm_importance_sampling_clip_max",
    "vllm_importance_sampling_clip_min", "vllm_importance_sampling_correction", "vllm_importance_sampling_mode",
    "weight_decay",
]  # fmt: skip
"""Settings that decide what is optimised."""
OFF_POLICY = {"num_iterations": 2}
"""With one pass over a rollout TRL takes the current policy for the old one."""


def cases() -> list[tuple[str, str, dict[str, Any], int]]:
    """Name, rollout, settings, micro-batches."""
    made: list[tuple[str, str, dict[str, Any], int]] = []

    def add(name: str, rollout: str = "mixed", micro_batches: int = 1, **settings: Any) -> None:
        made.append((name, rollout, {"max_completion_length": 16, **OFF_POLICY, **settings}, micro_batches))

    for loss in ("dapo", "grpo", "bnpo", "dr_grpo"):
        for beta in (0.0, 0.04):
            for sampler in (None, "token_truncate", "sequence_mask"):
                vllm = {} if sampler is None else {"use_vllm": True, "vllm_importance_sampling_mode": sampler}
                add(f"{loss}, beta {beta}, {sampler}", loss_type=loss, beta=beta, **vllm)
        for scale in ("batch", "none"):
            add(f"{loss}, scale {scale}", loss_type=loss, scale_rewards=scale)
        add(f"{loss}, k3 without the ratio", loss_type=loss, beta=0.04, use_bias_correction_kl=False)
        add(f"{loss}, on-policy", loss_type=loss, beta=0.04, num_iterations=1)
        add(f"{loss}, sequence ratio", loss_type=loss, importance_sampling_level="sequence", epsilon=0.05)
        add(f"{loss}, four micro-batches", loss_type=loss, beta=0.04, micro_batches=4)
    add("dapo, first of two updates", steps_per_generation=2)
    for low, high, delta in ((0.2, 0.28, None), (0.1, 0.05, None), (0.2, 0.2, 1.6), (0.2, 0.28, 1.3)):
        add(f"clip {low} {high} {delta}", epsilon=low, epsilon_high=high, delta=delta)
    for mode in ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask"):
        add(f"{mode}, bounds 0.8 and 1.5", use_vllm=True, vllm_importance_sampling_mode=mode,
            vllm_importance_sampling_clip_min=0.8, vllm_importance_sampling_clip_max=1.5)  # fmt: skip
    sequence = {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 0.1, "epsilon_high": 0.15}
    add("gspo", **sequence)
    add("gspo, k3", beta=0.04, use_bias_correction_kl=False, **sequence)
    add("gspo, k3 by the row's ratio", beta=0.04, **sequence)
    add("gspo, sampler", use_vllm=True, **sequence)
    add("luspo", **sequence | {"loss_type": "luspo"})
    add("cispo", loss_type="cispo", epsilon_high=1.3)
    add("cispo, beta 0.04", loss_type="cispo", epsilon_high=5.0, beta=0.04)
    add("sapo", loss_type="sapo")
    add("sapo, beta 0.04", loss_type="sapo", sapo_temperature_pos=1.5, sapo_temperature_neg=2.0, beta=0.04)
    add("vespo", loss_type="vespo")
    add("vespo, sampler", loss_type="vespo", use_vllm=True, vllm_importance_sampling_mode="token_truncate")
    add("off-policy mask", off_policy_mask_threshold=0.1)
    add("off-policy mask, sampler", off_policy_mask_threshold=0.1, use_vllm=True)
    add("entropy mask", top_entropy_quantile=0.2)
    add("GDPO", "two_rewards", multi_objective_aggregation="normalize_then_sum", reward_weights=[1.0, 0.5])
    add("two rewards", "two_rewards", reward_weights=[1.0, 0.5])
    for rollout in ("unanimous", "abstaining"):
        add(rollout, rollout)
    add("unanimous, scale batch", "unanimous", scale_rewards="batch")
    for loss in ("dapo", "grpo", "dr_grpo"):
        add(f"truncated, {loss}", "truncated", loss_type=loss, mask_truncated_completions=True)
    return made


def defaults() -> dict[str, Any]:
    """What GRPOConfig sets where a person says nothing."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = GRPOConfig(output_dir=folder, report_to="none", use_cpu=True)
    return {name: getattr(arguments, name) for name in DECIDES}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("file", type=Path, help="where to write")
    file = parser.parse_args().file
    recorded = {
        "versions": {"trl": trl.__version__, "transformers": transformers.__version__, "torch": torch.__version__},
        "defaults": defaults(),
        "rollouts": ROLLOUTS,
        "cases": [
            record(name, ROLLOUTS, rollout, settings, micro) for name, rollout, settings, micro in cases()
        ],
        "model": record_model(ROLLOUTS["mixed"], {"max_completion_length": 16, "beta": 0.04, "temperature": 0.9, **OFF_POLICY}),
    }  # fmt: skip
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(recorded, separators=(",", ":")) + "\n")
    print(f"{file}: {len(recorded['cases'])} cases, {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
