"""The kinds of pluggable parts."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module


@dataclass(frozen=True)
class Kind:
    """One kind of part."""

    name: str
    """What hooks and commands call it: ``reward`` in ``grpo_register_reward``."""
    folder: str
    """Subpackage that holds its base class and built-ins."""
    base: str
    """Name of its base class in ``<folder>/base.py``."""
    decides: str
    """What it decides, in a few words."""

    @property
    def hook(self) -> str:
        """Name of the hook that registers components of this kind."""
        return f"grpo_register_{self.name}"

    def base_class(self) -> type:
        """The base class, imported now."""
        if self.name == "callback":
            return import_module("lightning.pytorch").Callback  # type: ignore[no-any-return]
        return getattr(import_module(f"grpo_lightning.{self.folder}.base"), self.base)  # type: ignore[no-any-return]


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("reward", "rewards", "Reward", "how good a completion is"),
        Kind("advantage", "advantages", "Advantage", "what a reward means"),
        Kind("transform", "transforms", "Transform", "credit after the estimator"),
        Kind("selector", "selectors", "Selector", "which groups train"),
        Kind("loss", "losses", "PolicyLoss", "the surrogate"),
        Kind("aggregation", "aggregations", "Aggregation", "how terms become one scalar"),
        Kind("kl", "kl", "KLEstimator", "distance to the reference"),
        Kind("correction", "corrections", "Correction", "off-policy weights"),
        Kind("auxiliary", "auxiliary", "AuxiliaryLoss", "losses before and beside GRPO"),
        Kind("sampler", "samplers", "Sampler", "how completions are drawn"),
        Kind("curriculum", "curricula", "Curriculum", "which prompts come next"),
        Kind("engine", "engines", "Engine", "who generates"),
        Kind("environment", "environments", "Environment", "what happens between turns"),
        Kind("policy", "policies", "Policy", "what is trained"),
        Kind("prompts", "prompts", "PromptSource", "where prompts come from"),
        Kind("callback", "callbacks", "Callback", "what is shown"),
    )
}
