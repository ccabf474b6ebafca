"""From scored completions of held-out prompts to accuracy, pass@k and majority@k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from typing_extensions import override

from grpo_lightning.functional.majority import majority_at_k
from grpo_lightning.functional.pass_at_k import pass_at_k

Row = Mapping[str, Any]
"""One completion: ``prompt_index`` (int), ``reward`` (float or None), ``components`` (scores or None by name),
``correct`` (bool), ``answer`` (str), ``length`` (int) and ``truncated`` (bool)."""

FIXED = ("prompt_index", "samples", "correct", "truncated", "length", "reward_sum", "reward_count")


def columns(k: Sequence[int], components: Sequence[str]) -> list[str]:
    """Names of the statistics of :func:`prompt_statistics`, in order."""
    votes = [f"{name}@{each}" for each in k for name in ("pass", "majority")]
    return [*FIXED, *votes, *(f"reward/{name}/{part}" for name in components for part in ("sum", "count"))]


def prompt_statistics(rows: Sequence[Row], *, k: Sequence[int], components: Sequence[str]) -> list[float]:
    """Sums over the completions of one prompt, and its pass@k and majority@k, in the order of :func:`columns`.

    Raises:
        ValueError: If there are fewer than ``k`` completions, or a score has a name that is not in ``components``.
    """
    unknown = {name for row in rows for name in row["components"]} - set(components)
    if unknown:
        raise ValueError(f"scores of {sorted(unknown)} are not among the declared components {list(components)}")
    correct_R = torch.tensor([bool(row["correct"]) for row in rows])
    ids = {answer: index for index, answer in enumerate(dict.fromkeys(row["answer"] for row in rows))}
    answers_R = torch.tensor([ids[row["answer"]] for row in rows])
    samples, correct = torch.tensor([len(rows)]), correct_R.sum()[None]
    values = [float(rows[0]["prompt_index"]), float(len(rows)), float(correct)]
    values += [float(sum(row["truncated"] for row in rows)), float(sum(row["length"] for row in rows))]
    values += _sum_and_count(row["reward"] for row in rows)
    for each in k:
        values += [float(pass_at_k(samples, correct, each)), majority_at_k(answers_R, correct_R, each)]
    for name in components:
        values += _sum_and_count(row["components"].get(name) for row in rows)
    return values


def _sum_and_count(scores: Any) -> list[float]:
    present = [score for score in scores if score is not None]
    return [float(sum(present)), float(len(present))]


def evaluation_metrics(statistics_PC: Tensor, *, k: Sequence[int], components: Sequence[str]) -> dict[str, float]:
    """Metrics of a data set, by the keys of ``docs/metrics.md``.

    Args:
        statistics_PC: [P, C] float64: a row of :func:`prompt_statistics` for each prompt. A prompt that is there twice
            (ranks may share one) counts once.
        k: Values of k.
        components: Names of the rewards.

    Returns:
        ``accuracy``, ``length_mean`` and ``truncated_fraction`` are means over completions, ``reward`` and
        ``reward/<name>`` over the completions that have such a score, ``pass@<k>`` and ``majority@<k>`` over prompts.
        What has nothing to average is left out.
    """
    column = dict(zip(columns(k, components), _distinct(statistics_PC).unbind(1), strict=True))
    samples = column["samples"].sum()
    ratios = {
        "accuracy": (column["correct"].sum(), samples),
        "reward": (column["reward_sum"].sum(), column["reward_count"].sum()),
        **{
            f"{name}@{each}": (column[f"{name}@{each}"].sum(), torch.tensor(len(column["samples"])))
            for name in ("pass", "majority")
            for each in k
        },
        "length_mean": (column["length"].sum(), samples),
        "truncated_fraction": (column["truncated"].sum(), samples),
        **{
            f"reward/{name}": (column[f"reward/{name}/sum"].sum(), column[f"reward/{name}/count"].sum())
            for name in components
        },
    }
    return {key: float(total) / float(count) for key, (total, count) in ratios.items() if count > 0}


def _distinct(statistics_PC: Tensor) -> Tensor:
    first = {index: row for row, index in reversed(list(enumerate(statistics_PC[:, 0].tolist())))}
    return statistics_PC[torch.tensor(sorted(first.values()), dtype=torch.int64)]


class EvaluationMetrics(Metric):
    """:func:`evaluation_metrics` of whole prompts that arrive in parts, on several ranks.

    Each prompt becomes one row of numbers; ``compute`` gathers the rows of all ranks. Under several processes the
    metric must lie on the device that the process group talks from; as an attribute of a module it moves with it.

    Args:
        k: Values of k for pass@k and majority@k; no prompt may have fewer completions.
        components: Names of the rewards, those that abstain everywhere included.

    Example:
        >>> from grpo_lightning.evaluation import EvaluationMetrics
        >>> metrics = EvaluationMetrics(k=[1], components=["exact"])
        >>> metrics.update([dict(prompt_index=0, reward=1.0, components={"exact": 1.0}, correct=True, answer="4",
        ...                      length=2, truncated=False)])
        >>> metrics.compute()["accuracy"]
        1.0
    """

    full_state_update = False
    statistics: list[Tensor]

    def __init__(self, *, k: Sequence[int], components: Sequence[str] = ()) -> None:
        super().__init__()
        self.k, self.components = list(k), list(components)
        self.add_state("statistics", default=[], dist_reduce_fx="cat")
        self.reset()

    @override
    def reset(self) -> None:
        super().reset()
        # A rank without prompts must bring an empty table of the right shape and type to the gathering.
        width = len(columns(self.k, self.components))
        self.statistics.append(torch.zeros(0, width, dtype=torch.float64, device=self.device))
        self.update([])  # to have seen none of the prompts is no mistake, so no warning

    @override
    def update(self, rows: Sequence[Row]) -> None:
        """Take in all completions of some prompts, in any order.

        Raises:
            ValueError: If a prompt has been seen on this rank before: its completions would have come in parts.
        """
        seen = {int(index) for part in self.statistics for index in part[:, 0].tolist()}
        prompts: dict[int, list[Row]] = {}
        for row in rows:
            prompts.setdefault(row["prompt_index"], []).append(row)
        repeated = seen & prompts.keys()
        if repeated:
            raise ValueError(f"prompt {min(repeated)} has been evaluated already; give all its completions at once")
        table = [prompt_statistics(each, k=self.k, components=self.components) for each in prompts.values()]
        if table:
            self.statistics.append(torch.tensor(table, dtype=torch.float64, device=self.device))

    @override
    def compute(self) -> dict[str, float]:
        """The metrics over all prompts of all ranks; empty where there was none."""
        parts = self.statistics if isinstance(self.statistics, list) else [self.statistics]
        return evaluation_metrics(torch.cat(parts).cpu(), k=self.k, components=self.components)
