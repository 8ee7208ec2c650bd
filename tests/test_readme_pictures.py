"""The pictures of the README are current."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "browser"))

import pictures_made_from
import pytest
from pictures_made_from import IMAGES, STORED, made_from


def test_readme_pictures_match_the_current_card() -> None:
    assert STORED.read_text("utf-8").strip() == made_from(), "the card has changed: run make pictures and look at them"
    assert len(list(IMAGES.glob("*.png"))) == 4


def test_changed_card_changes_the_picture_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    before = made_from()
    for name, other in {"style_sheet": ".run { color: red }", "run_html": "<p>another card</p>"}.items():
        with monkeypatch.context() as changed:
            changed.setattr(pictures_made_from, name, lambda *given, other=other: other)
            assert made_from() != before, name
    assert made_from() == before
