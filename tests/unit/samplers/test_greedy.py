from __future__ import annotations

import torch

from grpo_lightning.samplers.greedy import Greedy


def test_the_most_probable_id_and_the_lowest_of_equal_ones() -> None:
    log_probs = torch.tensor([[0.1, 0.2, 0.7], [0.4, 0.2, 0.4], [1 / 3, 1 / 3, 1 / 3]], dtype=torch.float64).log()
    support = Greedy().support(log_probs)
    assert support.tolist() == [[False, False, True], [True, False, False], [True, False, False]]


def test_it_cannot_train() -> None:
    assert not Greedy.explores
    assert Greedy().temperature == 1.0
    assert Greedy().generate_arguments() == {"do_sample": False}
