"""Events as lines of JSON, and back."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from property_settings import size
from run_builder import Story
from some_events import of_kind

from agentnb.core.log import events as e
from agentnb.core.log.wire import decode, decode_lines, decode_log, encode
from agentnb.core.messages import Image, Text, ToolCall
from agentnb.core.request import ToolSpec
from agentnb.errors import TraceError

CALL = ToolCall("look", {"where": "über 😀"}, "1")


def a_run() -> list[e.AnyEvent]:
    """Build a small run with multi-byte characters."""
    story = Story(prompt="Grüße, 世界 😀")
    story.begun().retried(4.5, 9.0).replied(Text("I look… 👀"), CALL).ran(CALL, "näh").ended()
    return story.begun(reason="tool_results").replied(Text("fertig ✓")).ended().over().events


def lines_of(data: bytes) -> io.BytesIO:
    return io.BytesIO(data)


WHOLE = [encode(event) for event in a_run()]
LOG = b"".join(WHOLE)


ONE_OF_EACH_KIND = st.tuples(*of_kind.values())


@pytest.mark.slow("events of forty kinds, whose fields hold anything")
@pytest.mark.req("KX.10")
@settings(max_examples=size(8, nightly=40))
@given(ONE_OF_EACH_KIND)
def test_event_survives_its_log_line_with_all_fields(events: tuple[Any, ...]) -> None:
    for event in events:
        line = encode(event)
        assert decode(line) == event
        assert line.endswith(b"\n") and line.count(b"\n") == 1
        read = json.loads(line)
        assert {"kind", "run_id", "seq", "at"} <= set(read)
        assert line.startswith(b'{"kind":"%s"' % read["kind"].encode())
        assert read["at"] is None or read["at"].endswith(("Z", "+00:00"))


@pytest.mark.req("KX.10")
def test_every_event_kind_is_covered() -> None:
    assert set(of_kind) == set(e.KINDS)


def test_event_kinds_are_snake_case_in_the_past_tense() -> None:
    assert [kind.__struct_config__.tag for kind in e.KINDS] == [
        "run_started",
        "round_started",
        "guidance_given",
        "retry_scheduled",
        "compaction_started",
        "context_compacted",
        "spent_besides",
        "model_replied",
        "reply_streamed",
        "tool_admitted",
        "tool_started",
        "tool_finished",
        "call_blocked",
        "todos_changed",
        "question_asked",
        "question_answered",
        "round_finished",
        "loop_detected",
        "limit_reached",
        "command_received",
        "run_suspended",
        "run_recovered",
        "warned",
        "error_raised",
        "run_finished",
        "step_started",
        "step_attempted",
        "step_skipped",
        "step_finished",
        "branch_taken",
        "result_given",
        "plan_proposed",
        "plan_edited",
        "plan_approved",
        "plan_rejected",
        "plan_reviewed",
        "model_called",
        "reply_given",
        "tools_changed",
        "server_started",
        "server_changed",
        "finding_made",
        "guidance_drawn",
        "grant_given",
        "grant_withdrawn",
        "context_shifted",
        "outcome_given",
        "other",
    ]


def test_picture_survives_its_line_as_base64() -> None:
    story = Story(history=(e.Message("user", (Image("image/png", bytes(range(256))),)),))
    assert decode(encode(story.events[0])) == story.events[0]


def test_empty_fields_are_omitted() -> None:
    assert set(json.loads(encode(Story().events[0]))) == {"kind", "seq", "at", "run_id", "schema", "prompt", "model"}


def test_entire_log_round_trips() -> None:
    assert decode_lines(lines_of(LOG), "run.jsonl") == a_run()


def test_log_truncated_at_any_byte_keeps_its_complete_events() -> None:
    events = a_run()
    ends = [sum(map(len, WHOLE[:count])) for count in range(len(WHOLE) + 1)]
    for cut in range(len(LOG) + 1):
        # An event is whole when its JSON is complete; only the line end may be missing.
        count = sum(cut >= end - 1 for end in ends[1:])
        if count:
            assert decode_lines(lines_of(LOG[:cut]), "run.jsonl") == events[:count], cut
        else:
            with pytest.raises(TraceError, match=r"^run\.jsonl "):
                decode_lines(lines_of(LOG[:cut]), "run.jsonl")


def test_log_truncated_in_its_first_line_is_an_error() -> None:
    with pytest.raises(TraceError, match=r"contains no complete event.*interrupted before it began"):
        decode_lines(lines_of(WHOLE[0][:-20]), "run.jsonl")


def test_empty_log_has_no_events() -> None:
    with pytest.raises(TraceError, match=r"run\.jsonl contains no complete event"):
        decode_lines(lines_of(b""), "run.jsonl")


JUNK = [b"junk\n", b"\n", b"{}\n", b'{"kind":"party_held","seq":2}\n', b"\xff\xfe\n", b"[1]\n", WHOLE[2][:-9] + b"\n"]


def test_junk_between_events_is_an_error_with_line_number(subtests: pytest.Subtests) -> None:
    for junk in JUNK:
        for before in [1, 3, len(WHOLE) - 1]:
            with subtests.test(junk=junk, before=before):
                data = b"".join([*WHOLE[:before], junk, *WHOLE[before:]])
                with pytest.raises(TraceError, match=rf"^run\.jsonl, line {before + 1}: Not an agentnb event"):
                    decode_lines(lines_of(data), "run.jsonl")


def test_log_reads_alike_whole_and_line_by_line(subtests: pytest.Subtests) -> None:
    middle = len(WHOLE) // 2
    logs = {
        "whole": LOG,
        "without its last line end": LOG[:-1],
        "cut off": LOG[:-10],
        "empty": b"",
        "two events on a line": WHOLE[0] + WHOLE[1][:-1] + b"".join(WHOLE[2:]),
        "an event on two lines": LOG.replace(b',"run_id"', b',\n"run_id"', 3),
        "of an earlier schema": LOG.replace(b'"schema":%d' % e.SCHEMA, b'"schema":4', 1),
        "of a later schema": LOG.replace(b'"schema":%d' % e.SCHEMA, b'"schema":99', 1),
        "continued by another": b"".join([*WHOLE[:middle], GONE_ON, *WHOLE[middle:]]),
        "an event under the name of unknown ones": b"".join([*WHOLE[:middle], WHOLE[1].replace(b"round_started", b"other")]),
        "begins in the middle": b"".join(WHOLE[1:]),
        "begins twice": WHOLE[0] + LOG,
        "nested too deep": WHOLE[0] + b"[" * 100_000 + b"\n" + WHOLE[1],
        **{f"with junk {junk!r}": b"".join([*WHOLE[:middle], junk, *WHOLE[middle:]]) for junk in JUNK},
    }
    for name, data in logs.items():
        with subtests.test(name):
            assert _read(lambda data=data: decode_log(data, "run.jsonl")) == _read(
                lambda data=data: decode_lines(lines_of(data), "run.jsonl")
            )


def _read(read: Callable[[], list[e.AnyEvent]]) -> list[e.AnyEvent] | str:
    try:
        return read()
    except TraceError as error:
        return str(error)


def test_logs_of_one_agent_share_tools_and_system_prompt() -> None:
    tools = (ToolSpec("look", "Looks.", {"type": "object"}),)
    start = replace(a_run()[0], system="Be short.", tools=tools, guidance={"text": "Go on."})
    log = encode(start) + b"".join(WHOLE[1:])
    (first, *_), (second, *_) = decode_log(log, "a"), decode_log(log.replace(b'"r-1"', b'"r-2"'), "b")
    assert first == start and replace(second, run_id="r-1") == start
    assert first.tools is second.tools and first.system is second.system
    assert first.guidance is not second.guidance  # a plain dict, which callers may change
    assert decode_log(log.replace(b"Be short.", b"Be brief."), "c")[0] == replace(start, system="Be brief.")
    for sound, damaged in ((b'"look"', b"7"), (b'"Be short."', b"[]"), (b'"Go on."', b"null"), (b"Be", b"\xff\xfe")):
        with pytest.raises(TraceError, match="line 1: Not an agentnb event"):
            decode_log(log.replace(sound, damaged, 1), "c")


def test_truncated_event_inside_a_log_is_an_error(subtests: pytest.Subtests) -> None:
    for where in range(1, len(WHOLE) - 1):
        with subtests.test(where=where):
            data = b"".join([*WHOLE[:where], WHOLE[where][:10], b"\n", *WHOLE[where + 1 :]])
            with pytest.raises(TraceError, match=rf"line {where + 1}:"):
                decode_lines(lines_of(data), "run.jsonl")


def test_unrelated_file_is_not_a_run_log(subtests: pytest.Subtests) -> None:
    for first in [b"hello\n", b"a,b\n1,2\n", b"\x89PNG\r\n\x1a\n", b"{}\n", b'{"kind":"run_started"}\n']:
        with subtests.test(first=first):
            with pytest.raises(TraceError, match=r"run\.jsonl is not an agentnb run log"):
                decode_lines(lines_of(first), "run.jsonl")


def test_invalid_first_line_is_an_error_with_its_number() -> None:
    with pytest.raises(TraceError, match=r"run\.jsonl, line 1: Not an agentnb event"):
        decode_lines(lines_of(b'{"kind":"run_started","schema":1}\n'), "run.jsonl")


def test_log_without_its_beginning_is_refused() -> None:
    line = WHOLE[-1].replace(b'{"kind":"run_finished"', b'{"kind":"run_finished","schema":1')
    with pytest.raises(TraceError, match="begins with run_finished, not with run_started"):
        decode_lines(lines_of(line), "run.jsonl")


@pytest.mark.parametrize("rest", ["", ',"mood":"new","prompt":{"shape":[]}'])
def test_log_of_a_newer_schema_is_refused_with_a_hint(rest: str) -> None:
    newer = f'{{"kind":"run_started","schema":{e.SCHEMA + 1}{rest}}}\n'.encode()
    with pytest.raises(TraceError) as caught:
        decode_lines(lines_of(newer + b'{"kind":"unheard_of"}\n'), "run.jsonl")
    assert str(caught.value) == (
        f"run.jsonl was written by a newer agentnb (schema {e.SCHEMA + 1}, this version reads up to {e.SCHEMA}). "
        "Upgrade it: pip install --upgrade agentnb"
    )


@pytest.mark.parametrize("schema", [e.SCHEMA, e.SCHEMA - 1])
def test_log_of_this_or_an_older_schema_is_read(schema: int) -> None:
    events = Story(schema=schema).over().events
    assert decode_lines(lines_of(b"".join(map(encode, events))), "run.jsonl") == events


def test_unknown_field_of_the_same_schema_is_ignored() -> None:
    line = WHOLE[0].replace(b'{"kind":"run_started"', b'{"kind":"run_started","weather":"fine"')
    assert decode_lines(lines_of(line), "run.jsonl") == a_run()[:1]


NEWER = (
    f"run.jsonl was written by a newer agentnb (schema {e.SCHEMA + 1}, this version reads up to {e.SCHEMA}). "
    "Upgrade it: pip install --upgrade agentnb"
)
GONE_ON = encode(e.RunRecovered(seq=3, at=a_run()[0].at, run_id="r-1", schema=e.SCHEMA + 1))
UNKNOWN = b'{"kind":"weather_turned","seq":4,"sky":"clear"}\n'


@pytest.mark.req("KX.10")
def test_log_continued_by_a_newer_version_is_refused(subtests: pytest.Subtests) -> None:
    for rest in [b"", UNKNOWN, UNKNOWN + WHOLE[-1], UNKNOWN[:-9], WHOLE[3]]:
        for before in [1, 3]:
            with subtests.test(rest=rest, before=before):
                with pytest.raises(TraceError) as caught:
                    decode_lines(lines_of(b"".join(WHOLE[:before]) + GONE_ON + rest), "run.jsonl")
                assert str(caught.value) == NEWER


def test_log_continued_by_this_or_an_older_version_is_read(subtests: pytest.Subtests) -> None:
    for schema in range(1, e.SCHEMA + 1):
        with subtests.test(schema=schema):
            events = [*a_run()[:3], e.RunRecovered(seq=3, at=a_run()[0].at, run_id="r-1", schema=schema)]
            assert decode_lines(lines_of(b"".join(map(encode, events))), "run.jsonl") == events
