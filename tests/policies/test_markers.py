"""Marker lines are removed from stored and streamed text, and nothing else is."""

from __future__ import annotations

import itertools
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from property_settings import examples
from scripted_runs import Counting
from streamed_replies import Streamed, Streaming

from agentnb.agent.agent import Agent
from agentnb.core.log.events import TextDelta
from agentnb.core.messages import Message, Text, Thinking, ToolCall
from agentnb.detect.run import Run
from agentnb.models.scripted import ScriptedModel
from agentnb.policies.marker_text import MarkerFilter, without_markers
from agentnb.store.store import Store

LINES = [
    ("[WORKFLOW_COMPLETE]", "complete"),
    ("[CONTINUE]", "continue"),
    ('{"status":"complete"}', "complete"),
    ('{"status": "continue"}', "continue"),
    ('{ "status" : "stop" }', "stop"),
    ('  {"status": "stop"}\t', "stop"),
    ("   [CONTINUE]  ", "continue"),
]


def taken(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the stored text of a reply, and its signals."""
    message, signals = without_markers(Message("assistant", (Text(text),)))
    return message.text, signals


def streamed(*pieces: str) -> str:
    shown = MarkerFilter()
    return "".join([shown.feed(piece) for piece in pieces]) + shown.rest()


def cut(text: str, places: list[int]) -> list[str]:
    """Split the text at these positions."""
    ends = sorted({0, len(text), *[place % (len(text) + 1) for place in places]})
    return [text[start:end] for start, end in pairwise(ends)]


# Stored text


@pytest.mark.req("R0.40")
def test_marker_alone_on_its_line_is_removed(subtests: pytest.Subtests) -> None:
    for (line, signal), (before, after, rest) in itertools.product(
        LINES,
        [
            ("", "", ""),
            ("Done.\n", "", "Done."),
            ("", "\nDone.", "Done."),
            ("One.\n", "\nTwo.", "One.\nTwo."),
            ("One.\r\n", "\r\n", "One."),
        ],
    ):
        with subtests.test(line=line, signal=signal, before=before, after=after, left=rest):
            assert taken(before + line + after) == (rest, (signal,))


@pytest.mark.req("R0.40")
def test_marker_beside_other_text_is_not_a_marker(subtests: pytest.Subtests) -> None:
    for line, around in itertools.product(
        [line for line, _ in LINES],
        ["I say {}", "{} now", "`{}`", "- {}", "> {}", ">{}", "x{}", "{}.", '"{}"', "'{}'", "“{}”", "    {}", "\t{}", " \t{}"],
    ):
        with subtests.test(line=line, around=around):
            text = f"One.\n{around.format(line.strip())}\nTwo."
            assert taken(text) == (text, ())
            assert streamed(text) == text


@pytest.mark.req("R0.40")
def test_text_resembling_a_marker_is_kept_as_text(subtests: pytest.Subtests) -> None:
    for text in [
        "[workflow_complete]",
        "[WORKFLOW COMPLETE]",
        "WORKFLOW_COMPLETE",
        "[CONTINUE",
        "[CONTINUE] [CONTINUE]",
        '{"status": "done"}',
        '{"status": "complete", "n": 1}',
        '{"state": "complete"}',
        "{'status': 'complete'}",
        '[{"status": "complete"}]',
        "[ CONTINUE ]",
    ]:
        with subtests.test(text=text):
            assert taken(text) == (text, ())
            assert streamed(text) == streamed(*text) == text


@pytest.mark.req("R0.33", "R0.40")
def test_marker_in_a_code_fence_is_kept_as_text(subtests: pytest.Subtests) -> None:
    for (line, _), (before, after) in itertools.product(
        LINES,
        [
            ("```\n", "\n```"),
            ("```json\n", "\n```\nSo."),
            ("Look:\n~~~\n", "\n~~~\n"),
            ("````md\n```\n", "\n```\n````\n"),
            ("  ```\n", "\n  ```"),
            ("```\r\n", "\r\n```\r\n"),
            ("```\n", ""),  # an unclosed fence includes the rest
            ("```\n~~~\n", "\n```"),
            ("```\n``` x\n", "\n```"),
        ],
    ):
        with subtests.test(line=line, before=before, after=after):
            text = before + line + after
            assert taken(text) == (text, ())
            assert streamed(text) == streamed(*text) == text


@pytest.mark.req("R0.33", "R0.40")
def test_marker_after_a_code_fence_is_recognized(subtests: pytest.Subtests) -> None:
    for before in [
        "```\nx\n```\n",
        "~~~\n```\n~~~\n",
        "```a`b\n",
        "``\n",
        "    ```\n",
        "```[CONTINUE]```\n",
        "````\n```\n`````  \n",
    ]:
        with subtests.test(before=before):
            assert taken(f"{before}[WORKFLOW_COMPLETE]") == (before.rstrip(), ("complete",))
            assert streamed(*before, "[WORKFLOW_COMPLETE]") == before


@pytest.mark.req("R0.40")
def test_several_markers_are_removed_and_reported_in_order() -> None:
    text = 'One.\n[CONTINUE]\nTwo.\n{"status":"stop"}\n[WORKFLOW_COMPLETE]\n'
    assert taken(text) == ("One.\nTwo.", ("continue", "stop", "complete"))


@pytest.mark.req("R0.40")
def test_message_with_only_markers_has_no_parts_left() -> None:
    message, signals = without_markers(Message("assistant", (Text("[CONTINUE]\n\n"), ToolCall("look", {}, "1"))))
    assert (message.parts, signals) == ((ToolCall("look", {}, "1"),), ("continue",))


@pytest.mark.req("R0.40")
def test_markers_in_several_texts_leave_other_parts_unchanged() -> None:
    parts = (Text("One.\n[CONTINUE]", {"a": 1}), Thinking("[CONTINUE]"), ToolCall("say", {"text": "[CONTINUE]"}, "1"))
    message, signals = without_markers(Message("assistant", (*parts, Text("[WORKFLOW_COMPLETE]"))))
    assert message == Message("assistant", (Text("One.", {"a": 1}), *parts[1:]))
    assert signals == ("continue", "complete")


def test_message_without_markers_is_returned_unchanged() -> None:
    for text in ("", "Done.", "a [link] and {braces}", "  blanks stay  \n"):
        message = Message("assistant", (Text(text),))
        assert without_markers(message) == (message, ())
        assert without_markers(message)[0] is message


FENCES = ["```", "````", "~~~", "~~~~", "``` ", "```json", "  ```", "``", "    ```", "```x`"]


@pytest.mark.req("R0.40")
@examples(500)
@given(st.lists(st.sampled_from([*FENCES, *FENCES, "[CONTINUE]", "  [CONTINUE]", "text", "", "    [CONTINUE]"]), max_size=12))
@example(["    ```", "[CONTINUE]", "    ```"])
def test_code_blocks_are_recognized_by_markdown_rules(lines: list[str]) -> None:
    """Paragraphs stay separate, as Markdown would join an indented line to the one above."""
    lines = [each for line in lines for each in (line, *([""] if line in ("text", "", "``", "```x`") else []))]
    code: set[int] = set()
    for token in MarkdownIt("commonmark").parse("\n".join(lines)):
        if token.type in ("fence", "code_block") and token.map:
            code |= set(range(*token.map))
    counting = [
        line for place, line in enumerate(lines) if line.strip() == "[CONTINUE]" and place not in code and line[:4].strip()
    ]
    assert taken("\n".join(lines))[1] == ("continue",) * len(counting)


# Streamed text

MARKERS = ["[WORKFLOW_COMPLETE]", "[CONTINUE]", '{"status": "complete"}']
HALVES = ["```", "`", "~~~", "[", "[CONT", "{", "}", '"status"', ":", '"stop"']
BLANKS = ["\n", "\r", "\r\n", "\n\n", " ", "\t", "\x0b", "\x0c", "\x85", "\u2028", " " * 30]
PIECES = st.sampled_from([*MARKERS, *HALVES, *BLANKS, "words ", "x" * 61])
TEXTS = st.lists(PIECES, max_size=12).map("".join) | st.text("[]{}CONTIUE\n\r \t", max_size=60) | st.text(max_size=40)
PLACES = st.lists(st.integers(0, 500), max_size=20)
anything = examples(500)


@pytest.mark.req("R0.40")
@anything
@given(TEXTS, PLACES)
@example("One.\n[WORKFLOW_COMPLETE]\n", list(range(30)))
@example("[CONTINUE]\r\nTwo.", [10, 11, 12])
@example('\n{"status"\x0b: "stop"}\nx', list(range(30)))
@example('Look:\n{\n"status": "complete"\n}\n', [])
@example(" " * 61 + "[CONTINUE]\n", list(range(80)))
@example("[CONTINUE]" + " " * 60 + "\nx", list(range(80)))
def test_streamed_text_equals_the_stored_text_however_split(text: str, places: list[int]) -> None:
    stored, signals = taken(text)
    shown = streamed(*cut(text, places))
    if signals:
        assert shown.rstrip() == stored.rstrip() if stored else not shown.strip()
    else:
        assert shown == text


@pytest.mark.req("R0.40")
@anything
@given(TEXTS, PLACES, PLACES)
@example(" " * 61 + "[CONTINUE]\n", [], list(range(80)))
@example("[CONTINUE]" + " " * 60 + "\n", [], list(range(80)))
def test_splits_of_a_stream_do_not_matter(text: str, places: list[int], others: list[int]) -> None:
    assert streamed(*cut(text, places)) == streamed(*cut(text, others))


@anything
@given(st.lists(st.sampled_from([*MARKERS, *HALVES, "\n", " ", "\t", "words "]), max_size=12).map("".join))
@example('{\n[CONTINUE]\n"status": "stop"}')
def test_removing_markers_a_second_time_changes_nothing(text: str) -> None:
    rest, _ = taken(text)
    assert taken(rest) == (rest, ())


@anything
@given(st.lists(st.sampled_from(["One.", "[CONTINUE]", "", "  ", "[x]", '{"status":"stop"}', "{}", "two words"]), max_size=8))
def test_lines_other_than_markers_keep_their_order(lines: list[str]) -> None:
    expected = [line for line in lines if line not in ("[CONTINUE]", '{"status":"stop"}')]
    rest, signals = taken("\n".join(lines))
    assert len(signals) == len(lines) - len(expected)
    assert [line for line in rest.split("\n") if line.strip()] == [line for line in expected if line.strip()]


def test_text_is_shown_at_once_but_possible_markers_are_held() -> None:
    shown = MarkerFilter()
    assert [shown.feed(piece) for piece in ("Well", ", [CONT", "INUE]", " yes.\n")] == ["Well", ", [CONT", "INUE]", " yes.\n"]
    assert [shown.feed(piece) for piece in ("[CONT", "INU", "ous]", " yes")] == ["", "", "[CONTINUous]", " yes"]
    assert shown.rest() == ""


def test_marker_in_html_quotation_or_code_is_kept_as_text(subtests: pytest.Subtests) -> None:
    examples = {
        "pre": "<pre>\n[CONTINUE]\n</pre>",
        "pre with blank lines": "<pre class='x'>\na\n\n[CONTINUE]\n\n</pre>\nDone.",
        "comment": "<!-- such as\n[CONTINUE]\n-->",
        "lazy quotation": "> It says:\n[CONTINUE]\nand so on",
        "two lines of it": "> It says\nas follows\n[CONTINUE]",
        "code span over lines": "Write `a\n[CONTINUE]\nb` there.",
        "longer run": "Write ``a ` b\n[CONTINUE]\nc`` there.",
    }
    counts = {
        "after pre": "<pre>x</pre>\n[CONTINUE]",
        "after a quotation": "> It says.\n\n[CONTINUE]",
        "after a quoted fence": "> ```\n> x\n> ```\n[CONTINUE]",
        "after an empty quotation line": "> It says.\n>\n[CONTINUE]",
        "backtick that nothing closes": "It is `so\n[CONTINUE]\n\nYes ` no.",
        "escaped backtick": "It is \\`so\n[CONTINUE]\nb` there.",
        "closed before": "It is `so` and `so`\n[CONTINUE]\n`x`",
        "word like a tag": "<preview>\n[CONTINUE]",
    }
    for name, text in {**examples, **counts}.items():
        with subtests.test(name):
            expected, signals = taken(text)
            assert signals == (() if name in examples else ("continue",))
            for size in (1, 3, len(text)):
                pieces = [text[start : start + size] for start in range(0, len(text), size)]
                assert streamed(*pieces).rstrip() == expected


def test_long_line_is_streamed_without_delay() -> None:
    shown = MarkerFilter()
    assert "".join([shown.feed("{" + "x" * 10) for _ in range(20)])


def test_held_text_is_shown_at_the_end_unless_a_marker() -> None:
    assert streamed("One.\n[CONT") == "One.\n[CONT"
    assert streamed("One.\n[CONTINUE]") == "One.\n"
    shown = MarkerFilter()
    shown.feed("[CONTINUE]")
    assert (shown.rest(), shown.rest()) == ("", "")
    assert shown.feed("[CONTINUE]") == ""  # the next stream starts a line


# In a run


def told(*replies: Any, **how: Any) -> tuple[Run, str]:
    """Return a run with these replies, and all streamed text."""
    heard: list[str] = []

    def watch(item: Any) -> None:
        if isinstance(item, TextDelta):
            heard.append(item.text)

    counting = Counting()
    agent = Agent(ScriptedModel(replies), tools=[counting.tool("look")], todos=False)
    return agent.run_sync("go", watch=watch, **how), "".join(heard)


@pytest.mark.req("R0.40")
@pytest.mark.parametrize(("line", "signal"), [pair for pair in LINES if pair[1] == "complete"])
def test_marker_is_neither_shown_nor_stored_nor_sent_again(line: str, signal: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    run, heard = told([f"I look.\n{line}\nNow.", ToolCall("look")], store=store)
    assert run.rounds[0].signals == (signal,)
    assert (run.rounds[0].text, run.text, heard) == ("I look.\nNow.", "I look.\nNow.", "I look.\nNow.")
    stored = store.path(run.id).read_text().partition("\n")[2]  # its first line has the guidance texts, which name markers
    assert "WORKFLOW_COMPLETE" not in stored and not re.search(r"status\W+complete", stored.replace('"status":"completed"', ""))
    assert store.load(run.id) == run


@pytest.mark.req("R0.40")
def test_marker_of_an_earlier_reply_is_not_sent() -> None:
    model = ScriptedModel(["One.\n[CONTINUE]", "Two.\n[WORKFLOW_COMPLETE]"])
    run = Agent(model, tools=[Counting().tool("look")], todos=False).run_sync("go")
    assert [round.text for round in run.rounds] == ["One.", "Two."]
    assert not any("[CONTINUE]" in message.text for message in model.requests[1].messages if message.role == "assistant")


@pytest.mark.req("R0.40")
def test_unstreamed_reply_is_stored_without_markers() -> None:
    run = Agent(ScriptedModel(["Done.\n[WORKFLOW_COMPLETE]"], stream=False)).run_sync("go")
    assert (run.text, run.rounds[0].signals) == ("Done.", ("complete",))


@pytest.mark.req("R0.40")
def test_interrupted_stream_is_stored_without_markers() -> None:
    broken = Streaming([ToolCall("look"), Streamed("I looked.\n", "[WORKFLOW_COMPLETE]\n", "And n", RuntimeError("cut"))])
    run = Agent(broken, tools=[Counting().tool("look")], todos=False).run_sync("go")
    assert (run.status, run.rounds[-1].stop_reason) == ("failed", "broken_off")
    assert run.text == "I looked.\nAnd n"


@pytest.mark.req("R0.40")
def test_text_about_a_marker_is_shown_and_stored(subtests: pytest.Subtests) -> None:
    for words in ["Write [CONTINUE] to go on.", "Then:\n[CONT", "{", "On.\n[WORKFLOW_COMPLETE] soon\n"]:
        with subtests.test(words=words):
            run, heard = told(words)
            assert heard == run.text == words
            assert run.rounds[0].signals == ()
