"""The pictures of the README are of this version."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "browser"))

from pictures_made_from import IMAGES, STORED, made_from


def test_the_pictures_were_made_from_the_card_as_it_is_now() -> None:
    assert STORED.read_text("utf-8").strip() == made_from(), "the card looks different now: make pictures, and look at them"
    assert len(list(IMAGES.glob("*.png"))) == 4


def test_the_number_is_the_same_each_time() -> None:
    assert made_from() == made_from()
