from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing
from torch import distributed

from grpo_lightning.evaluation import EvaluationMetrics

Row = dict[str, Any]


def row(prompt: int, answer: str, correct: bool, *, reward: float | None = None, **other: Any) -> Row:
    values = {"components": {"exact": float(correct)}, "length": 4, "truncated": False, **other}
    return {"prompt_index": prompt, "reward": reward, "correct": correct, "answer": answer, **values}


def rows() -> list[Row]:
    """Two prompts of three completions: two of three right, and none right."""
    return [
        row(3, "7", True, reward=1.0, length=2),
        row(3, "7", True, reward=0.5, length=4),
        row(3, "8", False, reward=None, length=12, truncated=True, components={"exact": 0.0, "style": 0.25}),
        row(9, "1", False, reward=0.0),
        row(9, "2", False, reward=0.0, components={"exact": None}),
        row(9, "2", False, reward=0.0),
    ]


EXPECTED = {
    "accuracy": 2 / 6,
    "reward": 1.5 / 5,
    "pass@1": (2 / 3 + 0) / 2,
    "pass@2": (1 + 0) / 2,
    "pass@3": (1 + 0) / 2,
    "majority@1": (2 / 3 + 0) / 2,
    "majority@2": ((1 + 0.5 + 0.5) / 3 + 0) / 2,
    "majority@3": (1 + 0) / 2,
    "length_mean": (2 + 4 + 12 + 4 + 4 + 4) / 6,
    "truncated_fraction": 1 / 6,
    "reward/exact": 2 / 5,
    "reward/style": 0.25,
}


def metrics() -> EvaluationMetrics:
    return EvaluationMetrics(k=[1, 2, 3], components=["exact", "style", "unused"])


def test_hand_computed() -> None:
    metric = metrics()
    metric.update(rows())
    assert metric.compute() == pytest.approx(EXPECTED)
    assert "reward/unused" not in metric.compute()


def test_parts_and_order_do_not_matter() -> None:
    metric = metrics()
    metric.update(rows()[:2:-1])
    metric.update([])
    metric.update(rows()[:3])
    assert metric.compute() == pytest.approx(EXPECTED)


def test_reset_forgets() -> None:
    metric = metrics()
    metric.update(rows())
    metric.reset()
    assert metric.compute() == {}
    metric.update(rows()[:3])
    assert metric.compute()["accuracy"] == pytest.approx(2 / 3)


def test_a_reward_may_be_called_reward() -> None:
    metric = EvaluationMetrics(k=[1], components=["reward"])
    metric.update([row(0, "1", True, reward=2.0, components={"reward": 5.0})])
    assert metric.compute()["reward"] == 2.0
    assert metric.compute()["reward/reward"] == 5.0


def test_a_prompt_in_parts_is_refused() -> None:
    metric = metrics()
    metric.update(rows()[:3])
    with pytest.raises(ValueError, match="prompt 3"):
        metric.update([row(3, "7", True)] * 3)


def test_an_undeclared_component_is_refused() -> None:
    with pytest.raises(ValueError, match="tone"):
        metrics().update([row(0, "1", True, components={"tone": 1.0})] * 3)


def test_too_few_completions_are_refused() -> None:
    with pytest.raises(ValueError, match="k is 2"):
        metrics().update(rows()[:1])


def _process(rank: int, store: str, results: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=3)
    # The first rank has one prompt, the second both (one of them twice in all), the third none.
    metric = metrics()
    metric.update([rows()[:3], rows(), []][rank])
    torch.save(metric.compute(), f"{results}.{rank}")
    distributed.destroy_process_group()


@pytest.mark.multiprocess
@pytest.mark.slow
def test_ranks_are_gathered_and_shared_prompts_count_once(tmp_path: Path) -> None:
    context = torch.multiprocessing.get_context("spawn")
    arguments = (str(tmp_path / "store"), str(tmp_path / "result"))
    processes = [context.Process(target=_process, args=(rank, *arguments), daemon=True) for rank in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        process.kill()
    for rank in range(3):
        assert torch.load(tmp_path / f"result.{rank}") == pytest.approx(EXPECTED)
