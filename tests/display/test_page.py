"""The page of a run: whole, self-contained and passive."""

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


def test_page_shows_the_complete_run() -> None:
    run = plain_run()
    page = page_html(run)
    words = visible_text(page)
    for expected in (
        "Asked: What is it <i>?",
        "It is 3 <b>.",
        "essay",
        "line 0 ",
        "line 2500 ",
        "line 4999",
        run.id,
        "• Done, not checked",
    ):
        assert expected in words, expected
    assert f"{run.id} · {run.started_at:%Y-%m-%d %H:%M} UTC · {len(run.events)} events" in words
    assert words.count("what the model saw") + words.count("guidance") >= 2
    assert words.count("line 2500 ") == 1  # the next request shows it cut; it is whole right above


def marked(of: int) -> str:
    """Return a text of about this many characters with a mark in its middle, in lines of forty."""
    return f"{'x' * 39}\n" * (of // 80) + "MIDDLE" + f"{'y' * 39}\n" * (of // 80)


def test_page_states_what_it_omits_and_where_to_find_it(subtests: pytest.Subtests) -> None:
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
            text = visible_text(page_html(run))
            assert mark in text or (LEFT_OUT in text and f"{run.id}.jsonl" in text)


def test_complete_page_has_no_note_about_omissions() -> None:
    assert LEFT_OUT not in visible_text(page_html(plain_run()))


def test_page_is_self_contained() -> None:
    page = page_html(plain_run())
    check_is_harmless(page, document=True)
    shown = re.sub(r'<a [^>]*href="https?://[^"]*"[^>]*>', "", page)
    assert not re.search(r'(?:href|src|action|url)\s*[=(]\s*"?(?:https?:)?//', shown)
    assert "@import" not in page and "url(" not in page
    assert '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; ' in unescape(page)
    assert "<script" not in page


def test_security_policy_precedes_everything_it_covers() -> None:
    page = page_html(plain_run())
    assert page.index("Content-Security-Policy") < page.index("<title") < page.index("<style") < page.index("<body")


def test_page_title_is_the_first_words_of_the_prompt() -> None:
    assert "<title>What is it &lt;i&gt;? · agentnb</title>" in page_html(plain_run())


@pytest.mark.parametrize("name", ["run.html", "run.HTML", "run.htm"])
def test_saving_under_an_html_name_writes_a_page(tmp_path: Path, name: str) -> None:
    path = save_trace(plain_run(), tmp_path / name)
    assert path == tmp_path / name
    assert path.read_text("utf-8").startswith("<!doctype html>\n<html")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_saving_under_another_name_writes_a_loadable_log(tmp_path: Path) -> None:
    run = plain_run()
    assert load_trace(save_trace(run, str(tmp_path / "run.jsonl"))) == run


@pytest.mark.parametrize("name", ["run.html", "run.jsonl"])
def test_unwritable_target_raises_a_clear_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / name).mkdir()
    for path in (tmp_path / "file" / name, tmp_path / name):
        with pytest.raises(StoreError, match="cannot be saved as"):
            save_trace(plain_run(), path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["file", name])


def test_surrogates_do_not_break_writing_a_page(tmp_path: Path) -> None:
    run = Agent(ScriptedModel(["a\ud83d b"])).run_sync("c\udcff")
    assert "<html" in save_trace(run, tmp_path / "run.html").read_text("utf-8")
