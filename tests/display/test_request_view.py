"""The request view as HTML: each piece names its origin, is exact and never becomes markup."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest
from asserted_sentences import Snapshot
from scripted_runs import play

from agentnb import Agent, History, Matrix, Run
from agentnb.context.request_history import LeftOut, SentRequest, sent_request, sent_requests
from agentnb.core.messages import Image, Message, Text, Thinking, ToolCall, ToolResult
from agentnb.core.request import ToolSpec
from agentnb.core.usage import Usage
from agentnb.display.card.request_view import request_view_html, size, summary
from agentnb.display.css import inline_css, rules
from agentnb.display.defaults import MAX_OF_A_SENT_RESULT
from agentnb.display.markup import Html
from agentnb.display.texts.labels import clean
from agentnb.models import Reply, ScriptedModel
from agentnb.tools.function import tool

SHORT = History(compact_above=6, keep_recent=3)
ALLOWED = {"div", "span", "b", "pre", "details", "summary"}


class Read(HTMLParser):
    """The elements of HTML, and its text as a browser would show it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, list[str]]] = []
        self.open: list[str] = []
        self.pres: list[str] = []
        self.classes: set[str] = set()
        self.text = ""
        self.feed(html)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, [name for name, _ in attrs]))
        self.open.append(tag)
        self.classes.update(str(dict(attrs).get("class", "")).split())
        if tag == "pre":
            self.pres.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if tag == "pre":
            self.pres[-1] = self.pres[-1].removeprefix("\n")
        if tag in ("div", "pre", "summary"):
            self.text += "\n"

    def handle_data(self, data: str) -> None:
        self.text += data
        if "pre" in self.open:
            self.pres[-1] += data


@tool(repeatable=True)
def look(x: int = 0) -> str:
    """Look at one."""
    return f"seen {x}"


run_of_script = partial(play, tools=[look])


def sights(run: Run) -> list[SentRequest]:
    return [seen for _, seen in sent_requests(run)]


def shown(seen: SentRequest, *, whole: bool) -> Read:
    html = request_view_html(seen, whole=whole)
    assert isinstance(html, Html)
    return Read(html)


def working() -> Run:
    return run_of_script(
        ["I look.", ToolCall("look", {"x": 1})], ToolCall("look", {"x": 2}), ToolCall("look", {"x": 3}), "Done.", todos=False
    )


# In words


def test_request_summary_shows_its_size_and_unchanged_part(snapshot: Snapshot) -> None:
    usages = [Usage(input=1_200, cache_read=0), Usage(input=2_100, cache_read=1_800), Usage(), Usage(cache_read=9)]
    lines = [Reply(Message("assistant", (ToolCall("look", {"x": n}),)), usage=usage) for n, usage in enumerate(usages)]
    bare = sights(run_of_script(*lines, "Done.", todos=False, guidance="off"))
    assert [summary(seen).replace(f"about {seen.tokens}", "about N") for seen in bare] == snapshot


def test_changed_reminder_is_distinguished_from_an_identical_message() -> None:
    requests = sights(working())
    assert "1 differs only in its reminder" in summary(requests[1])
    assert "2 as in the previous round, 1 more differs only in its reminder" in summary(requests[2])
    assert "= Message 1: stored, as in round 1 except for the reminder\n" in shown(requests[1], whole=False).text
    assert (
        "= Messages 1 to 3: stored, as in round 2, the last except for the reminder\n" in shown(requests[2], whole=False).text
    )


@pytest.mark.req("R0.20")
@pytest.mark.parametrize("whole", [True, False])
def test_every_origin_is_shown_in_words_besides_its_colour(whole: bool) -> None:
    policy = Matrix(workflow_mode=True, workflow_drops_text=True)
    run = run_of_script(ToolCall("look"), "At it.", "[WORKFLOW_COMPLETE]", todos=False, policy=policy)
    text = shown(sent_request(run, 2), whole=whole).text
    assert "= stored, as in round 2" in text or "= Messages 1 to 2: stored, as in round 2" in text
    assert "3 · tool · + stored; text was added since round 2" in text
    assert "3 · tool, its end · ◌ ephemeral, in this request only" in text
    assert "assistant · ⊘ left out: text that workflow mode continued from is not sent again\nAt it.\n" in text
    new = shown(sent_request(run, 1), whole=whole).text
    assert "2 · assistant · + new since round 1, stored" in new and "3 · tool · + new since round 1, stored" in new


def test_messages_kept_after_a_summary_share_a_line() -> None:
    script = [*[[f"Look {n}.", ToolCall("look", {"x": n})] for n in range(5)], "Done."]
    seen = sent_request(run_of_script(*script, todos=False, history=SHORT, guidance="off"), 3)
    stored = "stored; some earlier messages of round 3 are not sent"
    cut, whole = (shown(seen, whole=whole).text for whole in (False, True))
    assert "1 · user · Σ stored, joined with a summary" in cut and f"= Messages 2 to 3: {stored}\n" in cut
    assert "Look 1." not in cut and "Look 2." in cut
    for number in ("2 · assistant", "3 · tool", "4 · assistant", "5 · tool"):
        assert f"{number} · = {stored}\n" in whole and f"{number} · +" not in whole + cut
    same = sent_request(run_of_script(*script, todos=False, guidance="off"), 2)
    longer = replace(same, kept=2, unchanged=2)  # the third message got more text, followed by a reply
    for one, words in ((same, "+ new since round 2, stored"), (longer, "3 · tool · + stored; text was added")):
        for whole in (False, True):
            text = shown(one, whole=whole).text
            assert words in text and "some earlier messages" not in text


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.req("R0.20")
def test_ephemeral_text_is_verbatim_in_every_round(whole: bool) -> None:
    for seen in sights(working()):
        assert seen.ephemeral in shown(seen, whole=whole).pres
        assert seen.ephemeral.startswith("<system-reminder>")


def test_earlier_omissions_share_one_line_and_new_ones_are_complete() -> None:
    policy = Matrix(workflow_mode=True, workflow_drops_text=True)
    run = run_of_script("First words.", ToolCall("look"), "Later words.", "[WORKFLOW_COMPLETE]", todos=False, policy=policy)
    cut, whole = (shown(sent_request(run, 3), whole=whole).text for whole in (False, True))
    assert "First words." not in cut and "1 left out there too" in cut and "Later words." in cut
    places = [whole.index(one) for one in ("1 · user", "First words.", "2 · assistant", "Later words.")]
    assert places == sorted(places)
    assert "2 left out" in summary(sent_request(run, 3))
    assert "1 message, " in summary(sent_request(run, 1)) and ", none as in the previous round, 1 left out" in summary(
        sent_request(run, 1)
    )


@pytest.mark.parametrize("whole", [True, False])
def test_ephemeral_text_is_last_as_in_the_request(whole: bool) -> None:
    policy = Matrix(workflow_mode=True, workflow_drops_text=True)
    run = run_of_script("First words.", "[WORKFLOW_COMPLETE]", todos=False, policy=policy)
    for seen in sights(run):
        assert shown(seen, whole=whole).pres[-1] == seen.ephemeral


def test_omitted_empty_message_is_labelled() -> None:
    text = shown(sent_request(run_of_script("", "Done.", todos=False), 1), whole=False).text
    assert "assistant · ⊘ left out: it is empty\n" in text


def test_messages_of_the_previous_run_are_labelled_as_its_own() -> None:
    first = working()
    second = Agent(ScriptedModel(["Fine."]), tools=[look]).run_sync("And now?", continue_from=first)
    (seen,) = sights(second)
    cut = shown(seen, whole=False).text
    assert "= Messages 1 to 8: stored, from the continued run" in cut
    assert "I look." not in cut and "9 · user · + new, stored\nAnd now?" in cut
    assert "1 · user · = stored, from the previous run\ngo" in shown(seen, whole=True).text


# Whole and short


def test_full_view_contains_every_word_sent() -> None:
    def long_look() -> str:
        """Look long."""
        return f"begin {'x' * 50_000} end"

    script = [[Thinking("Hm, hm."), "I look." * 1_000, ToolCall("long_look", {"x": "z" * 3_000})], "Done."]
    seen = sent_request(run_of_script(*script, tools=[long_look]), 1)
    read = shown(seen, whole=True)
    parts = [part for message in (*seen.request.messages[:-1], seen.lasting) for part in message.parts]
    assert [type(part) for part in parts] == [Text, Thinking, Text, ToolCall, ToolResult]
    for part in parts:
        assert (json.dumps(part.arguments, indent=2) if isinstance(part, ToolCall) else part.text) in read.pres  # type: ignore[union-attr]
    assert seen.request.system in read.pres
    assert seen.request.tools[0].description in read.pres
    assert seen.request.tools[0].input_schema in [json.loads(pre) for pre in read.pres if pre.startswith("{")]


def test_short_view_shows_system_and_tools_in_first_round_only() -> None:
    first, second, *_ = (shown(seen, whole=False) for seen in sights(working()))
    system = working().system
    assert system in first.pres and "Look at one." in first.pres
    assert system not in second.pres and "Look at one." not in second.pres
    assert "= System prompt and tools: same as in round 1\n" in second.text
    assert "1 tool: look\n" in first.text


def test_short_view_truncates_tool_results_and_says_how_much() -> None:
    def much() -> str:
        """Give much."""
        return "y" * 5_000

    seen = sent_request(run_of_script(ToolCall("much"), "Done.", tools=[much]), 1)
    assert f"{'y' * MAX_OF_A_SENT_RESULT} … ({5_000 - MAX_OF_A_SENT_RESULT:,} more characters)" in shown(seen, whole=False).pres
    assert "y" * 5_000 in shown(seen, whole=True).pres


def test_view_size_grows_linearly_with_rounds() -> None:
    run = run_of_script(*[["Step.", ToolCall("look", {"x": n})] for n in range(120)], "Done.", todos=False, max_rounds=200)
    sizes = [len(request_view_html(seen, whole=False)) for seen in sights(run)]
    assert len(sizes) == 121
    assert max(sizes[2:]) < min(sizes[2:-1]) * 1.1
    assert sum(sizes) < 121 * 4_000


# Its pieces


def made_of(*parts: Any, role: Any = "user", **request: Any) -> SentRequest:
    """Return the first request of a run with these parts in its only message."""
    (seen,) = sights(run_of_script("Done.", guidance="off", todos=False))
    message = Message(role, parts)
    changed = msgspec.structs.replace(seen.request, messages=(message,), **request)
    return replace(seen, request=changed, lasting=message)


def told(*parts: Any) -> str:
    return shown(made_of(*parts), whole=False).text


def test_calls_show_name_id_and_arguments() -> None:
    assert 'call of look · c1\n{"x": 1, "y": ["a", null]}\n' in told(ToolCall("look", {"x": 1, "y": ["a", None]}, "c1"))
    assert 'call of look · c1\n"no object"\n' in told(ToolCall("look", "no object", "c1"))


def test_tool_results_in_the_view_show_errors() -> None:
    assert "result of look · c1\nfine\n" in told(ToolResult("c1", "look", (Text("fine"),)))
    assert "result of look · c1 · ✗ error timeout\n" in told(ToolResult("c1", "look", (Text("late"),), True, "timeout"))
    assert "result of look · c1\nempty\n" in told(ToolResult("c1", "look"))


def test_pictures_are_described_in_words() -> None:
    picture = Image("image/png", b"\x89" * 12_300)
    assert "picture, 12 kB, image/png\n" in told(picture)
    assert "picture, 12 kB, image/png\n" in told(ToolResult("c1", "look", (picture,)))
    assert [size(count) for count in (0, 999, 12_345, 3_400_000)] == ["0 B", "999 B", "12 kB", "3.4 MB"]


def test_opaque_and_blank_parts_are_labelled() -> None:
    assert "with provider data, 19 B: signature\n" in told(Thinking("", {"signature": "abc"}))
    assert "thinking, no text\n" in told(Thinking("", {"signature": "abc"}))
    assert "text, 2 blank characters\n" in told(Text(" \n", {"a": 1}))


def test_leading_line_break_of_a_text_is_kept() -> None:
    assert "<pre" in request_view_html(made_of(Text("\n\nwords")), whole=True)
    assert "\n\nwords" in shown(made_of(Text("\n\nwords")), whole=True).pres


def test_view_without_system_and_tools_shows_settings() -> None:
    text = shown(made_of(Text("go"), system="", tools=(), settings={"max_tokens": 9}), whole=False).text
    assert "No system prompt\n" in text and "No tools\n" in text and '{"max_tokens": 9}' in text


def test_absent_parts_of_a_request_take_no_space() -> None:
    text = shown(made_of(Text("go"), settings={}), whole=False).text
    assert "Settings" not in text and "ephemeral" not in text


HOSTILE = [
    "<script>alert(1)</script>",
    "</pre></details><img src=x onerror=alert(1)>",
    '"><a href="javascript:alert(1)" onclick=\'x\'>y</a>',
    "<style>*{display:none}</style><!-- ",
    "<svg/onload=alert(1)>]]>&lt;b&gt;&#60;b>",
    'class="agentnb-sight" style="position:fixed"',
    "\x1b[31m\x00\u202eevil\u2066",
]


def test_hostile_text_never_becomes_markup(subtests: pytest.Subtests) -> None:
    for whole in [True, False]:
        for bad in HOSTILE:
            with subtests.test(whole=whole, bad=bad):
                parts = [
                    Text(bad, {bad: bad}),
                    Thinking(bad),
                    Image(bad, b""),
                    ToolCall(bad, {bad: bad}, bad),
                    ToolResult(bad, bad, (Text(bad), Image(bad, b"")), True, bad),
                ]
                seen = made_of(
                    *parts, role="assistant", system=bad, tools=(ToolSpec(bad, bad, {bad: bad}),), settings={bad: bad}
                )
                gone = LeftOut(Message("assistant", (Text(bad),)), "workflow_mode", 0)
                html = request_view_html(replace(seen, ephemeral=bad, left_out=[gone]), whole=whole)
                read = Read(html)
                assert {name for name, _ in read.tags} <= ALLOWED
                assert all(attributes in ([], ["class"]) for _, attributes in read.tags)
                assert not any(sign in html for sign in "\x00\x1b\u202e\u2066")
                assert read.pres.count(clean(bad)) == 7 and clean(bad) in read.text


def test_text_from_users_and_tools_never_becomes_markup() -> None:
    def bad() -> str:
        """<b>Bad</b>."""
        return HOSTILE[1]

    run = run_of_script([HOSTILE[0], ToolCall("bad"), ToolCall(HOSTILE[2])], "Done.", prompt=HOSTILE[4], tools=[bad])
    for seen in sights(run):
        for whole in (True, False):
            assert {name for name, _ in shown(seen, whole=whole).tags} <= ALLOWED


@pytest.mark.parametrize("whole", [True, False])
def test_every_used_class_has_a_rule_and_vice_versa(whole: bool) -> None:
    policy = Matrix(workflow_mode=True, workflow_drops_text=True)
    run = run_of_script(ToolCall("look"), "At it.", ToolCall("look"), "[WORKFLOW_COMPLETE]", todos=False, policy=policy)
    compacted = run_of_script(*[ToolCall("look", {"x": n}) for n in range(5)], "Done.", todos=False, history=SHORT)
    pieces = [request_view_html(seen, whole=whole) for seen in [*sights(run), *sights(compacted)]]
    used = set().union(*[Read(piece).classes for piece in pieces])
    assert used <= set(rules())
    own = {name for name in rules() if name.startswith("agentnb-sight")}
    assert own - used <= ({"agentnb-sight-same"} if whole else set())
    assert all("style=" in inline_css(piece) for piece in pieces)
