"""The list of runs: columns, folds that open, bounded size, hostile text."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from property_settings import size
from scripted_runs import add, even_failed, play

from agentnb import Run, Store, ToolCall
from agentnb.core.messages import Message, Text
from agentnb.core.usage import Usage
from agentnb.display.card.compact import compact_html
from agentnb.display.lists.history_list import MAX_OPENING, history_html, history_text, matches
from agentnb.display.markup import Html, tag
from agentnb.models import Reply
from agentnb.store.summaries import RunSummary

HOSTILE = [
    "<script>alert(1)</script>",
    "</summary></details><img src=x onerror=alert(1)>",
    "</pre><svg onload=alert(1)>",
    "[click](javascript:alert(1)) ![x](javascript:alert(1))",
    '" onmouseover="alert(1)" x="',
    "' style='position:fixed;inset:0",
    "</style><style>*{display:none}</style>",
    "\x1b[31mred\x00\u202egnorw\u202c",
    "<" * 9_000,
    "&" * 9_000,
    "# head\n" * 900,
    "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 900,
    "**a** `b` \ud83d " * 900,
    "漢字" * 4_000,
]
ALLOWED = {
    *("div", "span", "details", "summary", "pre", "b", "code"),
    *("p", "strong", "em", "ul", "ol", "li", "a", "blockquote", "hr", "br", "table", "thead", "tbody", "tr", "th", "td"),
    *(f"h{n}" for n in range(1, 7)),
}
"""Elements of agentnb and of Markdown."""
ATTRIBUTES = {"class", "style", "title", "aria-hidden", "href", "rel", "target", "start", "align"}
numbers = itertools.count(1)


class Reader(HTMLParser):
    """The elements of HTML as a browser would read them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((name, dict(attributes)))
        if name not in ("br", "hr"):
            self.open.append(name)

    def handle_endtag(self, name: str) -> None:
        assert self.open and self.open.pop() == name

    def handle_data(self, data: str) -> None:
        self.text += data

    def named(self, kind: str) -> int:
        return sum(kind in (attributes.get("class") or "").split() for _, attributes in self.elements)


def harmless(html: str) -> Reader:
    """Parse HTML and check that agentnb could have generated all of it."""
    reader = Reader(html)
    assert not reader.open
    for name, attributes in reader.elements:
        assert name in ALLOWED and set(attributes) <= ATTRIBUTES, (name, attributes)
        assert not (attributes.get("href") or "").lower().lstrip().startswith(("javascript:", "data:"))
        assert "fixed" not in (attributes.get("style") or "")
    for sign in ("\x1b", "\x00", "\u202e"):
        assert sign not in html
    return reader


def boom(text: str) -> str:
    """Fails."""
    raise ValueError(text)


def do(*replies: Any, **how: Any) -> Run:
    return even_failed(lambda: play(*(replies or ["Done."]), **{"tools": [add, boom], "prompt": "Go", **how}))


def line(**changes: Any) -> RunSummary:
    """Return a line of the list as the store would return it."""
    started = datetime(2026, 3, 4, 5, 6, tzinfo=UTC)
    run_id = f"20260304-050600-{next(numbers):011}"
    one = RunSummary(run_id, started, "completed", "natural", 3, 1.5, "anthropic:big", "Sum the table", 8_400, 0.0123)
    return replace(one, **changes)


def closed(run_id: str) -> Html:
    return tag("div", "", f"opened {run_id}")


def test_history_line_shows_the_status_word_and_usage() -> None:
    one = line()
    reader = harmless(history_html([one], "1 run in runs", closed))
    expected = (
        "1 run in runs",
        "•",
        "Done, not checked",
        "Sum the table",
        "3 rounds",
        "8.4k tokens",
        "$0.0123",
        "anthropic:big",
        one.id[-8:],
    )
    assert all(word in reader.text for word in expected)
    assert f"{one.started_at.astimezone():%d %b %H:%M}" in reader.text
    assert one.id in {attributes.get("title") for _, attributes in reader.elements}


def test_each_state_has_a_mark_and_a_word() -> None:
    for status, word in {"failed": "✗ Failed", "limited": "■ Limit reached", "running": "● Running", "odd": "■ odd"}.items():
        assert word in harmless(history_html([line(status=status)], "", closed)).text


def test_history_line_expands_to_its_run() -> None:
    lines = [line(), line()]
    reader = harmless(history_html(lines, "2 runs", closed))
    assert [name for name, _ in reader.elements].count("details") == 2
    assert all(f"opened {row.id}" in reader.text for row in lines)
    assert all("open" not in attributes for _, attributes in reader.elements)


def test_history_list_works_without_style_sheet_or_script() -> None:
    for name, attributes in Reader(history_html([line()], "", closed)).elements:
        assert attributes.get("style") or name not in ("details", "summary")


def test_unknown_values_are_not_shown_as_zero() -> None:
    unknown = harmless(history_html([line(tokens=None, cost=None)], "", closed)).text
    assert "no price" in unknown and "tokens" not in unknown and "$" not in unknown
    assert "$0" in harmless(history_html([line(cost=0.0)], "", closed)).text
    assert "no price" in history_text([line(cost=None)], "") and "$0 " in history_text([line(cost=0.0)], "")


def test_long_list_expands_only_its_first_runs() -> None:
    asked: list[str] = []

    def opened(run_id: str) -> Html:
        asked.append(run_id)
        return closed(run_id)

    lines = [line() for _ in range(MAX_OPENING + 180)]
    html = history_html(lines, "", opened)
    assert asked == [row.id for row in lines[:MAX_OPENING]]
    assert "180 runs before these" in html and all(row.id in html for row in lines)
    assert len(html) < 150_000


def test_history_text_has_a_line_for_each_run() -> None:
    lines = [line(), line(status="failed", prompt="Break\nit \x1b[31m", rounds=1)]
    told, first, second = history_text(lines, "2 runs in runs").split("\n")
    assert told == "2 runs in runs"
    assert first.split() == [
        lines[0].id,
        "Done,",
        "not",
        "checked",
        "3",
        "rounds",
        "$0.0123",
        "anthropic:big",
        "Sum",
        "the",
        "table",
    ]
    assert second.startswith(f"{lines[1].id}  Failed") and "Break it" in second and "\x1b" not in second


def test_search_requires_all_words_in_status_model_or_prompt(subtests: pytest.Subtests) -> None:
    cases = [
        ([], True),
        (["COMPLETED"], True),
        (["done"], True),
        (["big", "sum"], True),
        (["sum the"], True),
        (["sum", "failed"], False),
        (["20260304"], False),
    ]
    for wanted, expected in cases:
        with subtests.test(wanted=wanted):
            assert matches(line(), wanted) is expected
    for word in ("resumed", "recovered"):
        with subtests.test(wanted=word):
            assert [matches(line(recovered=times), [word]) for times in (0, 1)] == [False, True]


def test_nested_runs_are_counted_and_indented_below_their_parent() -> None:
    family = [
        line(nested=2),
        line(parent_id="a", depth=1, nested=1, prompt="Child"),
        line(parent_id="b", depth=2, prompt="Deep"),
    ]
    _, first, second, third = history_text(family, "").split("\n")
    assert (
        first.endswith("Sum the table  (2 nested)") and second.endswith(" ↳ Child  (1 nested)") and third.endswith("   ↳ Deep")
    )
    text = harmless(history_html(family, "", closed)).text.replace("\N{NO-BREAK SPACE}", " ")
    assert "2 nested Sum the table" in text and "↳ 1 nested Child" in text and "  ↳ Deep" in text


# The content of an opened line


def test_run_expands_to_prompt_answer_todos_and_rounds() -> None:
    todos = [{"id": 1, "title": "Look around", "status": "completed"}]
    write = ToolCall("todo_operations", {"operation": "write", "todoList": todos})
    run = do(["I look first.", write], [ToolCall("boom", {"text": "x"}), ToolCall("add", {"a": 1})], "It is **three**.")
    reader = harmless(compact_html(run))
    for expected in (
        "■ Done, 1 call failed",
        "3 rounds",
        "Asked: Go",
        "It is three.",
        "✓ 1 Look around, completed",
        f"%agent load {run.id}",
    ):
        assert expected in reader.text
    assert "  1  I look first.  todo_operations ✓" in reader.text and "  2  boom ✗ failed, add ✓" in reader.text
    assert "  3  " not in reader.text  # the answer appears once


def test_failed_run_in_the_history_shows_the_reason() -> None:
    reader = harmless(compact_html(do([ToolCall("add", {"a": 1})], RuntimeError("the server <b>is gone"))))
    assert "✗ Failed" in reader.text and "the server <b>is gone" in reader.text


def test_long_run_shows_its_last_twenty_rounds() -> None:
    run = do(*[[f"Now {n}.", ToolCall("add", {"a": n})] for n in range(50)], "Done.", max_rounds=60)
    text = harmless(compact_html(run)).text
    assert "30 earlier rounds" in text and " 31  Now 30.  add ✓" in text and " 50  Now 49." in text
    assert " 30  Now 29." not in text


def test_hostile_text_never_becomes_markup_and_stays_bounded(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for number, text in enumerate(HOSTILE):
        with subtests.test(text=text):
            store = Store(tmp_path / str(number))
            todos = [{"id": n, "title": text[:400], "status": "in-progress" if n == 1 else "not-started"} for n in range(1, 30)]
            write = ToolCall("todo_operations", {"operation": "write", "todoList": todos})
            rounds = size(2 + number % 2 * 23, nightly=25)  # by day every second run is long
            calls = [[text, ToolCall("boom", {"text": text}), ToolCall(text[:60], {text[:60]: n})] for n in range(rounds)]
            runs = [
                do([text, write], *calls, text, prompt=text, store=store, max_rounds=30),
                do(Reply(Message("assistant", (Text(text),)), Usage(), text[:60], {}), prompt=text, store=store),
                do([ToolCall("add", {"a": 1})], RuntimeError(text), prompt=text, store=store),
            ]
            for run in runs:
                html = compact_html(run)
                harmless(html)
                assert len(html.encode("utf-8", "replace")) <= 15_000
            lines = [replace(row, model=text, status=text[:20]) for row in store.summaries()]
            compact = {row.id: compact_html(store.load(row.id)) for row in lines}
            reader = harmless(history_html(lines, text[:300], compact.__getitem__))
            assert reader.named("agentnb-history-run") == 3
            many = [replace(lines[0], id=f"r{n}") for n in range(30)]
            harmless(history_html(many, text[:300], closed))
            assert "\x1b" not in history_text(lines, text[:300])
