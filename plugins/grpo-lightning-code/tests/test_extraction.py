from __future__ import annotations

import time

import pytest
from grpo_lightning_code.extraction import extract_code

LANGUAGES = ["python", "py", ""]


@pytest.mark.parametrize(
    ("completion", "code"),
    [
        ("Here:\n```python\nx = 1\n```\nDone.", "x = 1\n"),
        ("```\nx = 1\n```", "x = 1\n"),
        ("```Python title=a\nx = 1\n```", "x = 1\n"),
        ("```python\nfirst\n```\ntext\n```py\nsecond\n```", "second\n"),  # the last one
        ("```python\nright\n```\n```bash\nls\n```", "right\n"),  # the last in a language that counts
        ("```bash\nls\n```", None),
        ("~~~python\nx\n~~~", "x\n"),
        ("````python\ns = '''\n```\n'''\n````", "s = '''\n```\n'''\n"),  # a longer fence holds a shorter one
        ("```python\nx = 1\n", None),  # never closed: cut off
        ("```python\n```", ""),
        ("no code", None),
        ("", None),
    ],
)
def test_last_block(completion: str, code: str | None) -> None:
    assert extract_code(completion, where="block", languages=LANGUAGES) == code


@pytest.mark.parametrize(
    ("completion", "code"),
    [
        ("return x\n```\nThat is all.\n```python\ny\n```", "return x\n"),
        ("return x", "return x"),
        ("", ""),
    ],
)
def test_block_that_the_prompt_opened(completion: str, code: str) -> None:
    assert extract_code(completion, where="opened", languages=LANGUAGES) == code


def test_whole() -> None:
    assert extract_code("a\n```b", where="whole", languages=[]) == "a\n```b"


def test_long_completions_are_quick() -> None:
    began = time.monotonic()
    for piece in ("`", "```\n", " ", "```python\n", "~", "\t```"):
        extract_code(piece * 50_000, where="block", languages=LANGUAGES)
    assert time.monotonic() - began < 2
