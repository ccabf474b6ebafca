"""Replaying recorded completions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from grpo_lightning.engines.base import Completions, Engine, GenerationRequest
from grpo_lightning.engines.recording import read_recording
from grpo_lightning.engines.rows import RowWriter
from grpo_lightning.errors import ConfigError, GRPOError
from grpo_lightning.policies.base import Policy
from grpo_lightning.types import FinishReason


class Replay(Engine):
    """Answers with what a recorded run generated at the same addresses.

    Args:
        path: The folder ``recorded`` of a run that was started with ``model.record: true``.
    """

    name = "replay"
    example: ClassVar[Mapping[str, Any]] = {
        "path": str(Path(__file__).parents[1] / "testing" / "example_data" / "recorded")
    }
    addressed = True
    deterministic = True

    def __init__(self, *, path: str) -> None:
        self.path = Path(path)
        if not any(self.path.glob("*.pt")):
            raise ConfigError("path", path, "holds no recording", "give the folder 'recorded' of a run that had "
                              "model.record: true")  # fmt: skip
        self._rows: dict[tuple[str, tuple[int, ...]], dict[int, dict[str, Any]]] | None = None

    @override
    def generate(self, policy: Policy, request: GenerationRequest) -> Completions:
        if self._rows is None:
            self._rows = {}
            for path in sorted(self.path.glob("*.pt")):
                for key, recorded in read_recording(path):
                    self._rows.setdefault(key, {})[recorded["asked_at"]] = recorded
        writer = RowWriter(request.limit_Q.shape[0])
        version = None
        for row in range(request.limit_Q.shape[0]):
            recorded = self._find(self._rows, request, row)
            version = recorded["version"]
            starts = recorded["support_offsets"]
            for position, token in enumerate(recorded["tokens"].tolist()):
                support = None
                if starts is not None and starts[position + 1] > starts[position]:
                    support = recorded["support"][starts[position] : starts[position + 1]]
                writer.write(row, token, float(recorded["log_probs"][position]), support)
            writer.end(row, FinishReason(recorded["finish"]))
        completions = writer.finish()
        return Completions(
            completions.tokens, completions.log_probs, completions.finish_Q, completions.support, version
        )

    def _find(
        self,
        rows: Mapping[tuple[str, tuple[int, ...]], Mapping[int, dict[str, Any]]],
        request: GenerationRequest,
        row: int,
    ) -> dict[str, Any]:
        """What was recorded of a row: after as many updates where there are several, else whenever it was."""
        found = rows.get((request.stream, request.key(row)), {})
        if request.version in found:
            return found[request.version]
        if len(found) == 1:
            return next(iter(found.values()))
        what = f"the recording {self.path} holds no completion of {request.stream!r} at (rollout, group, attempt, member, turn)"
        if found:
            raise GRPOError(f"{what} = {request.key(row)} after {request.version} updates, but some after {sorted(found)}: "
                            "validate as often as the recorded run")  # fmt: skip
        raise GRPOError(
            f"{what} = {request.key(row)}: group_size, prompts_per_rollout or the data differ from the recorded run"
        )
