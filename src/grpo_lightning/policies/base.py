"""The contract of policies: what is trained."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard

from grpo_lightning.component import Component
from grpo_lightning.errors import ConfigError
from grpo_lightning.types import Prompt, Rollouts

Weights = Literal["current", "reference"]


class Policy(nn.Module, Component, ABC):
    """One root module whose ``forward`` returns log-probabilities and functionals of steps, never logits.

    It has three phases: the constructor keeps settings; :meth:`prepare` resolves everything that does not need weights
    (address, tokenizer, limits), so that a fault shows early; :meth:`load` builds the weights.
    """

    kind = "policy"

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:  # the module's parameters, not a component's state
        """The module's parameters and buffers."""
        return nn.Module.state_dict(self, *args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Load parameters and buffers."""
        return nn.Module.load_state_dict(self, *args, **kwargs)

    @abstractmethod
    def prepare(self) -> None:
        """Resolve and check everything that needs no weights; called once, before :meth:`load`."""

    @abstractmethod
    def load(self) -> None:
        """Build the weights. Every dropout probability is 0 from here on. Calling it again does nothing."""

    def outline(self) -> None:
        """Build what :meth:`load` builds, but for the numbers in it, without reading any: called where tensors have none.

        Raises:
            ConfigError: If the policy does not know how.
        """
        raise ConfigError("model.policy", self.name, "cannot be built without its weights",
                          "measure a short run with --profile")  # fmt: skip

    @property
    @abstractmethod
    def context_length(self) -> int:
        """Steps that a prompt and what follows it may have together."""

    @property
    def shares_prompts(self) -> bool:
        """Whether rows of one prompt run it once in :meth:`forward`: what a micro-batch costs is counted by it."""
        return False

    @property
    @abstractmethod
    def stop_ids(self) -> frozenset[int]:
        """Every step id that ends a turn."""

    def stop_ids_of(self, texts: Sequence[str]) -> frozenset[int]:
        """Ids that are one of ``texts`` each and that :meth:`decode` leaves out: as text they could never be seen."""
        return frozenset()

    @abstractmethod
    def encode(self, prompt: Prompt) -> Tensor:
        """[length] int64: what the policy is conditioned on."""

    @abstractmethod
    def encode_target(self, text: str) -> Tensor:
        """[length] int64: the steps of a whole answer, the end of the turn included."""

    @abstractmethod
    def encode_observation(self, prompt: Prompt, text: str, previous: Sequence[int]) -> Tensor:
        """[length] int64: the steps that show ``text`` and open the policy's next turn.

        Args:
            prompt: What the episode began with: text, or chat messages.
            text: The environment's answer.
            previous: Steps of the turn just written, so that its end is not repeated.
        """

    def check_turns(self) -> None:
        """Check that chat can go on turn by turn.

        Raises:
            ConfigError: If what was said before is written anew in a later turn, so that its steps cannot be continued.
        """

    @abstractmethod
    def decode(self, steps: Sequence[int]) -> str:
        """The text of steps, without the id that ended the turn."""

    @abstractmethod
    def forward(
        self,
        rows: Rollouts,
        functionals: Collection[str] = (),
        weights: Weights = "current",
        observed: Collection[str] = (),
    ) -> dict[str, Tensor]:
        """Functionals of the distribution at every trainable step of ``rows``, in order: each [trainable steps].

        ``log_prob`` is always there; ``functionals`` come with gradient, ``observed`` ones without. Temperatures and
        supports are the rows' own.
        """

    @abstractmethod
    def freeze_reference(self) -> None:
        """Make the weights of now the reference, from which KL is measured."""

    @abstractmethod
    def reference_state(self) -> Mapping[str, Tensor] | None:
        """The reference's tensors, to be written once; ``None`` where it follows from the weights themselves."""

    @abstractmethod
    def load_reference(self, state: Mapping[str, Tensor]) -> None:
        """Take over a reference that was written."""

    passes: Callable[[], AbstractContextManager[None]] = nullcontext
    """Makes the block around passes without gradient that differ in number from process to process; see
    :class:`grpo_lightning.strategies.lockstep.Lockstep`."""

    @property
    def frozen(self) -> Sequence[nn.Module]:
        """Models beside the policy that are not trained and belong to no other module: the reference, if it is one."""
        return ()

    def shard(self, mesh: Any) -> None:
        """Spread the weights over the processes of a mesh, by ``fully_shard`` of torch; this module is the outermost part.

        Args:
            mesh: One-dimensional ``DeviceMesh``.
        """
        fully_shard(self, mesh=mesh)

    @abstractmethod
    def export(self, folder: Path) -> None:
        """Write the policy in the standard format of its family."""
