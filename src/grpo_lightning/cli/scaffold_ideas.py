"""What the new plugin of each kind computes, and how a configuration uses it."""

from __future__ import annotations

from dataclasses import dataclass

TINY = '  policy: {name: causal_lm, model: "embedded://tiny-llama"}'
EXACT = "  rewards:\n    - {reward: exact_match}"
HELD_OUT = "  validation:\n    held_out: {name: sorting, length: 2, split: held_out, count: 16}"
SORTING = f"  train: {{name: sorting, length: 2}}\n{HELD_OUT}"


@dataclass(frozen=True)
class Idea:
    """One kind's plugin. YAML is written with ``$name`` for the component, and indented as it stands in a configuration."""

    description: str
    """What the component does, without a full stop."""
    suite: str
    """Class of ``grpo_lightning.testing`` with the checks of the kind."""
    usage: str
    """Lines of a configuration that use the component."""
    section: str = "model"
    """Section of the configuration that ``usage`` belongs to: ``model``, ``data`` or ``trainer``."""
    beside: str = EXACT
    """Further lines of ``model`` in the configuration that comes with the package."""
    policy: str = TINY
    data: str = SORTING
    warmup: int = 20
    """Supervised updates of that configuration."""
    steps: int = 160
    """All its updates."""

    def snippet(self) -> str:
        """What a reader of the package's page writes."""
        return f"{self.section}:\n{self.usage}"

    def model_lines(self) -> str:
        """The lines of ``model`` that the kind decides, without the policy."""
        own = self.usage if self.section == "model" and self.usage != self.policy else ""
        return "\n".join(filter(None, (self.beside, own)))

    def trainer_lines(self) -> str:
        """The lines of ``trainer`` that the kind decides."""
        return f"{self.usage}\n" if self.section == "trainer" else ""


IDEAS: dict[str, Idea] = {
    "reward": Idea(
        "Share of a right answer's characters that a completion has in their place",
        "RewardChecks",
        "  rewards:\n    - {reward: $name, weight: 1.0}",
        beside="",
    ),
    "advantage": Idea(
        "Rewards less the mean of their group, in units of the group's range",
        "AdvantageChecks",
        "  advantage: $name",
    ),
    "transform": Idea(
        "Negative advantages made smaller by a factor",
        "TransformChecks",
        "  transforms:\n    - {name: $name, weight: 0.5}",
    ),
    "selector": Idea(
        "Groups train only if one of their advantages is large enough",
        "SelectorChecks",
        "  selector: {name: $name, threshold: 0.1}",
    ),
    "loss": Idea(
        "The policy gradient with a capped weight for steps that have become likelier",
        "LossChecks",
        "  loss: {name: $name, cap: 2.0}",
    ),
    "aggregation": Idea(
        "Long rows weigh more than short ones, but less than their length says",
        "AggregationChecks",
        "  aggregation: {name: $name, power: 0.5}",
    ),
    "kl": Idea(
        "Half the squared log-ratio to the reference, with linear tails",
        "KLChecks",
        "  kl: {name: $name, limit: 1.0, weight: 0.01}",
    ),
    "correction": Idea(
        "Importance weights of trainer over sampler, capped and raised to a power",
        "CorrectionChecks",
        "  correction: {name: $name, cap: 4.0, power: 0.5}",
    ),
    "auxiliary": Idea(
        "Learning from given answers, most from those that are least sure",
        "AuxiliaryChecks",
        "  auxiliary:\n    - {loss: {name: $name, gamma: 2.0}, weight: 0.1}",
    ),
    "sampler": Idea(
        "Sampling without ids of less than a least probability",
        "SamplerChecks",
        "  sampler: {name: $name, epsilon: 0.01}",
    ),
    "curriculum": Idea(
        "A prompt of every data set in turn, whatever their sizes",
        "CurriculumChecks",
        "  curriculum: $name",
        section="data",
        data="  train:\n    short: {name: sorting, length: 2}\n    sums: {name: arithmetic, digits: 1}\n"
        f"  curriculum: $name\n{HELD_OUT}",
    ),
    "engine": Idea(
        "Generation at its plainest, to compare faster engines with",
        "EngineChecks",
        "  engine: $name",
        steps=40,
    ),
    "environment": Idea(
        "A second chance for a wrong answer",
        "EnvironmentChecks",
        '  environment: {name: $name, turns: 2, reply: "no>"}',
        beside="  rewards:\n    - {reward: environment}",
    ),
    "policy": Idea(
        "A causal language model of which only the last layers are trained",
        "PolicyChecks",
        '  policy: {name: $name, model: "embedded://tiny-llama", trainable_layers: 2}',
        policy='  policy: {name: $name, model: "embedded://tiny-llama", trainable_layers: 2}',
        warmup=80,
        steps=240,
    ),
    "prompts": Idea(
        "Made-up words to spell backwards",
        "PromptsChecks",
        "  train: {name: $name, count: 200, length: 2}",
        section="data",
        data="  train: {name: $name, count: 200, length: 2}\n"
        "  validation:\n    held_out: {name: $name, length: 2, split: held_out, count: 16}",
    ),
    "callback": Idea(
        "Stops a run whose mean reward has reached a target",
        "CallbackChecks",
        "  callbacks:\n    - {name: $name, target: 0.6, rollouts: 4}",
        section="trainer",
    ),
}
