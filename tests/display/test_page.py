"""The page of a run: whole, of itself, and nothing in it that acts."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any, Literal

import pytest
from hostile import check_is_harmless, visible_text

from agentnb import ToolCall, load_trace, save_trace
from agentnb.agent.agent import Agent
from agentnb.core.messages import Thinking
from agentnb.detect.run import Run
from agentnb.display.card.run_page import LEFT_OUT, page_html
from agentnb.errors import StoreError
from agentnb.models import ScriptedModel

LINES = "\n".join(f"line {number}" for number in range(5_000))


def essay() -> str:
    """Much text."""
    return LINES


def plain_run() -> Run:
    script = ["I look.\n\n[a page](https://a.example/x)", ToolCall("essay", {})], "It is **3** <b>."
    return Agent(ScriptedModel(script), tools=[essay]).run_sync("What is\nit <i>?")


def test_the_page_tells_all_of_the_run() -> None:
    run = plain_run()
    page = page_html(run)
    words = visible_text(page)
    for told in (
        "Asked: What is it <i>?",
        "It is 3 <b>.",
        "essay",
        "line 0 ",
        "line 2500 ",
        "line 4999",
        run.id,
        "• Done, not checked",
    ):
        assert told in words, told
    assert f"{run.id} · {run.started_at:%Y-%m-%d %H:%M} UTC · {len(run.events)} events" in words
    assert words.count("what the model saw") + words.count("guidance") >= 2
    assert words.count("line 2500 ") == 1  # the request of the next round shows it cut: it stands in full right above


def marked(of: int) -> str:
    """A text of about so many characters, with a mark in its middle."""
    return "x\n" * (of // 4) + "MIDDLE" + "y\n" * (of // 4)


def test_what_a_page_leaves_out_it_says_and_where_that_is(subtests: pytest.Subtests) -> None:
    def choose(kind: str) -> str:
        """Chooses."""
        return kind

    choose.__annotations__["kind"] = Literal[tuple(f"choice {number}" for number in range(2_000))]

    def long(size: int = 0, kind: str = "") -> str:
        """A long text."""
        return marked(size)

    cases: dict[str, tuple[Any, dict[str, Any], str]] = {
        "answer": ([marked(300_000)], {}, "MIDDLE"),
        "text beside a call": ([[marked(300_000), ToolCall("long", {})], "Done."], {}, "MIDDLE"),
        "thinking": ([[Thinking(marked(200_000)), "Done."]], {}, "MIDDLE"),
        "result": ([ToolCall("long", {"size": 1_000_000}), "Done."], {}, "MIDDLE"),
        "argument": ([ToolCall("long", {"kind": marked(1_000_000)}), "Done."], {}, "MIDDLE"),
        "prompt": (["Done."], {"prompt": marked(90_000)}, "MIDDLE"),
        "longer prompt": (["Done."], {"prompt": marked(300_000)}, "MIDDLE"),
        "schema": ([ToolCall("choose", {"kind": "choice 1"}), "Done."], {"tools": [choose]}, "choice 1999"),
    }
    for name, (script, settings, mark) in cases.items():
        with subtests.test(name):
            prompt = settings.pop("prompt", "go")
            run = Agent(ScriptedModel(script), **{"tools": [long], **settings}).run_sync(prompt)
            told = visible_text(page_html(run))
            assert mark in told or (LEFT_OUT in told and f"{run.id}.jsonl" in told)


def test_a_page_that_holds_all_says_nothing_of_what_it_leaves_out() -> None:
    assert LEFT_OUT not in visible_text(page_html(plain_run()))


def test_the_page_needs_nothing_but_itself() -> None:
    page = page_html(plain_run())
    check_is_harmless(page, document=True)
    shown = re.sub(r'<a [^>]*href="https?://[^"]*"[^>]*>', "", page)
    assert not re.search(r'(?:href|src|action|url)\s*[=(]\s*"?(?:https?:)?//', shown)
    assert "@import" not in page and "url(" not in page
    assert '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; ' in unescape(page)
    assert "<script" not in page


def test_the_policy_stands_before_anything_it_is_for() -> None:
    page = page_html(plain_run())
    assert page.index("Content-Security-Policy") < page.index("<title") < page.index("<style") < page.index("<body")


def test_the_title_is_the_first_words_of_the_prompt() -> None:
    assert "<title>What is it &lt;i&gt;? · agentnb</title>" in page_html(plain_run())


@pytest.mark.parametrize("name", ["run.html", "run.HTML", "run.htm"])
def test_a_name_of_a_page_makes_a_page(tmp_path: Path, name: str) -> None:
    path = save_trace(plain_run(), tmp_path / name)
    assert path == tmp_path / name
    assert path.read_text("utf-8").startswith("<!doctype html>\n<html")
    assert [one.name for one in tmp_path.iterdir()] == [name]


def test_any_other_name_makes_a_log_that_can_be_loaded(tmp_path: Path) -> None:
    run = plain_run()
    assert load_trace(save_trace(run, str(tmp_path / "run.jsonl"))) == run


@pytest.mark.parametrize("name", ["run.html", "run.jsonl"])
def test_what_cannot_be_written_says_so(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / name).mkdir()
    for path in (tmp_path / "file" / name, tmp_path / name):
        with pytest.raises(StoreError, match="cannot be saved as"):
            save_trace(plain_run(), path)
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(["file", name])


def test_halves_of_characters_do_not_keep_a_page_from_being_written(tmp_path: Path) -> None:
    run = Agent(ScriptedModel(["a\ud83d b"])).run_sync("c\udcff")
    assert "<html" in save_trace(run, tmp_path / "run.html").read_text("utf-8")
