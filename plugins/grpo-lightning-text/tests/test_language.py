from __future__ import annotations

import pytest
from grpo_lightning_text import Language
from grpo_lightning_text.language import stretches

from grpo_lightning.errors import ConfigError, DataError

ENGLISH = "We walked along the river and talked about the weather until it was dark. "
GERMAN = "Wir gingen am Fluss entlang und sprachen über das Wetter, bis es dunkel war. "
FRENCH = "Nous marchions le long de la rivière et parlions du temps jusqu'à la nuit. "


def score(text: str, **settings: object) -> float | None:
    reward = Language(**{"language": "en", **settings})
    reward.setup()
    return reward.score(completions=[text])[0]


@pytest.mark.parametrize(("text", "right"), [(ENGLISH, 1.0), (GERMAN, 0.0), (FRENCH, 0.0), (ENGLISH * 20, 1.0)])
def test_tells_languages(text: str, right: float) -> None:
    assert score(text) == right


def test_a_change_half_way_fails() -> None:
    assert score(ENGLISH * 8 + GERMAN * 8) == 0.0
    assert score(GERMAN * 8 + ENGLISH * 8) == 0.0


def test_short_texts_score_as_declared() -> None:
    assert [score("42"), score("ok then"), score("")] == [0.0, 0.0, 0.0]
    assert score("42", short=1.0) == 1.0
    assert score("42", short=None) is None
    assert score("Yes, exactly so", min_letters=50, short=0.5) == 0.5


def test_stretches_of_digits_pass() -> None:
    assert score(ENGLISH * 4 + "1234567890 " * 40 + ENGLISH * 4) == 1.0


def test_among_leaves_out_the_others() -> None:
    # Of English and French it is surely not English, but least unlike German among the others.
    assert score(GERMAN, among=["en", "de"]) == 0.0
    assert score(ENGLISH, among=["en", "de"], confidence=0.99) == 1.0


def test_language_of_each_row() -> None:
    reward = Language(column="to")
    rows = [ENGLISH, ENGLISH, GERMAN, GERMAN]
    assert reward.score(completions=rows, to=["en", "de", "de", None]) == [1.0, 0.0, 1.0, None]


def test_unknown_languages_are_refused() -> None:
    with pytest.raises(ConfigError, match="language: 'xq' is unknown"):
        score(ENGLISH, language="xq")
    with pytest.raises(DataError, match="no language that can be told"):
        Language(column="to").score(completions=[ENGLISH], to=["English"])


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"language": "en", "column": "to"},
        {"language": "English"},
        {"language": "en", "among": ["de"]},
        {"language": "en", "confidence": 2},
        {"language": "en", "window": 3},
    ],
)
def test_settings_are_checked(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        Language(**wrong)


def test_stretches_lose_nothing() -> None:
    for text in ("", "a", "aa bb cc", "a" * 37, " " * 20, ENGLISH * 9):
        for window in (5, 10, 300):
            pieces = stretches(text, window)
            assert "".join(pieces) == text
            assert all(len(piece) <= 1.5 * window for piece in pieces)
