"""Pictures from tools in the card of a run."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from html.parser import HTMLParser
from io import BytesIO
from typing import Any

import PIL.Image
import pytest
from hostile import check_is_harmless

from agentnb.agent.agent import Agent
from agentnb.core.messages import Image, Text, ToolCall
from agentnb.detect.run import Run
from agentnb.display.card import finished, transcript
from agentnb.display.card.html import run_html, running_html
from agentnb.display.card.text import run_text
from agentnb.display.markup import Html
from agentnb.models import ScriptedModel
from agentnb.tools.tool import ToolOutcome

KEPT = {"src", "alt", "class", "style"}
"""The attributes of a picture."""


def picture(kind: str = "PNG", width: int = 40) -> bytes:
    file = BytesIO()
    PIL.Image.new("RGB", (width, 30), "red").save(file, kind)
    return file.getvalue()


def run_with(*results: Any) -> Run:
    """Return a run in which each round got one of these results."""
    left = list(results)

    def look(number: int) -> Any:
        """Look."""
        return left.pop(0)

    calls = [ToolCall("look", {"number": number}) for number in range(len(results))]
    agent = Agent(ScriptedModel([*calls, "Done."]), tools=[look], policy="minimal")
    return asyncio.run(agent.run("Go."))


class Images(HTMLParser):
    """Collects the attributes of pictures and the names of all tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.images: list[dict[str, str]] = []
        self.tags: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "img":
            self.images.append({name: value or "" for name, value in attrs})


def images_of(run: Run, **how: Any) -> list[dict[str, str]]:
    return Images(run_html(run, **how)).images


def shown_bytes(image: dict[str, str]) -> bytes:
    return b64decode(image["src"].partition(";base64,")[2])


def test_picture_is_shown_with_alt_text_in_its_call(subtests: pytest.Subtests) -> None:
    for kind in ["PNG", "JPEG", "GIF", "WEBP"]:
        with subtests.test(kind=kind):
            data = picture(kind)
            run = run_with(data)
            (image,) = images_of(run)
            assert image["src"].startswith(f"data:image/{kind.lower()};base64,") and shown_bytes(image) == data
            assert image["alt"] == run.rounds[0].results[0].text and image["alt"].startswith("a picture")
            assert set(image) == KEPT


def test_each_picture_takes_its_alt_text_from_the_preceding_text() -> None:
    run = run_with([Text("Look:"), picture(width=10), "and", picture(width=20)])
    assert [image["alt"] for image in images_of(run)] == ["a picture of 10 x 30 pixels", "a picture of 20 x 30 pixels"]


def test_text_form_mentions_pictures() -> None:
    assert "→ a picture of 40 x 30 pixels" in run_text(run_with(picture()))


def test_bytes_that_are_not_a_picture_are_never_shown(subtests: pytest.Subtests) -> None:
    for data in [b"png", b"<svg onload=x>", b"<script>x</script>", b"", picture()[:60]]:
        with subtests.test(data=data):
            outcome = ToolOutcome(True, (Text("a picture"), Image('image/png"onerror="x', data)))
            shown = run_html(run_with(outcome))
            check_is_harmless(shown)
            assert Images(shown).images == [] and "<script" not in shown and "<svg" not in shown


def test_media_type_comes_from_the_bytes() -> None:
    (image,) = images_of(run_with(ToolOutcome(True, (Image('text/html"onerror="x', picture()),))))
    assert image["src"].startswith("data:image/png;base64,") and set(image) == KEPT


@pytest.mark.parametrize("hostile", ['" onload="x', "<script>x</script>", "'><img src=x>"])
def test_hostile_alt_text_is_escaped(hostile: str) -> None:
    saved = run_html(run_with(ToolOutcome(True, (Text(hostile), Image("image/png", picture())))))
    check_is_harmless(saved)
    shown = Images(saved)
    (image,) = shown.images
    assert image["alt"] == hostile and set(image) == KEPT and "script" not in shown.tags


def test_pictures_are_shown_only_after_the_run_has_ended() -> None:
    run = run_with(picture(width=10), picture(width=20))
    drawn: dict[int, Html] = {}
    growing = Run()
    for event in run.events:
        growing.apply(event)
        assert Images(running_html(growing, drawn=drawn)).images == []
    assert not any("<img" in html for html in drawn.values()) and sorted(drawn) == [0, 1, 2]
    assert len(images_of(growing)) == 2 and run_html(growing) == run_html(run)


def test_only_the_last_pictures_within_the_size_limit_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    datas = [picture(width=width) for width in (10, 20, 30)]
    for module in (finished, transcript):
        monkeypatch.setattr(module, "MAX_OF_PICTURES", len(datas[1]) + len(datas[2]))
    run = run_with(*datas)
    assert [shown_bytes(image) for image in images_of(run)] == datas[1:]
    assert "a picture of 10 x 30 pixels" in run_html(run)
