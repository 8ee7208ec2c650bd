"""Redaction: known keys are removed from texts and structures, and nothing else changes."""

from __future__ import annotations

import json
import traceback
from html import escape
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from run_builder import START
from some_events import json_values, of_kind

from agentnb import settings
from agentnb.core.log import events as e
from agentnb.core.log.wire import decode, encode
from agentnb.core.messages import Message, Text, ToolCall
from agentnb.core.redaction import IDS, MASK, StreamRedactor, redact, redact_error
from agentnb.errors import ModelError, TraceError

KEY = "sk-test-0123456789abcdef"
OTHER = "sk-other-fedcba9876543210"
KNOWN = (OTHER, KEY)

TEXTS = {
    KEY: "[key]",
    f"{KEY}, {KEY}{OTHER} and {KEY[:8]}": f"[key], [key][key] and {KEY[:8]}",
    f"cut off: {KEY[:20]}...": "cut off: [key]...",
    f"cut off: {KEY[:23]}": "cut off: [key]",
    f"cut off: {KEY[:19]} {KEY}": f"cut off: {KEY[:19]} [key]",
    "nothing": "nothing",
    "": "",
    KEY.upper(): KEY.upper(),
    # Spelled with escapes, which a page would render
    '{"a": "sk\\u002dtest\\u002D0123456789abcdef"}': '{"a": "[key]"}',
    "".join(f"\\u{ord(char):04x}" for char in KEY) + "\\u0041": "[key]\\u0041",
    'in JSON in JSON: "sk\\\\u002dtest-0123456789abcdef\\\\n"': 'in JSON in JSON: "[key]\\\\n"',
    "in Markdown: sk\\-test-0123456789abcdef\\-": "in Markdown: [key]\\-",
    "in HTML: sk&#45;test&#x2d;0123456789abcdef&lowbar; &amp;": "in HTML: [key]&lowbar; &amp;",
    f"cut off: {KEY[:20]} and sk\\-{KEY[3:22]}\\": "cut off: [key] and [key]\\",
    f"C:\\{KEY} \\u00e9 &amp; \\- &nothing; &fjlig; \\ud83d": "C:\\[key] \\u00e9 &amp; \\- &nothing; &fjlig; \\ud83d",
    "C:\\temp \\u00e9 &amp; \\- &nothing; \\ud83d": "C:\\temp \\u00e9 &amp; \\- &nothing; \\ud83d",
}


def test_only_keys_in_a_text_are_masked(subtests: pytest.Subtests) -> None:
    for text, expected in TEXTS.items():
        with subtests.test(text):
            assert redact(text, KNOWN) == expected
            assert redact(expected, KNOWN) is expected
            assert redact(text, ()) is text


def test_overlapping_keys_are_each_masked_completely(subtests: pytest.Subtests) -> None:
    first, second = KEY + "-first", KEY + "-second"
    for known in ((second, first), (first, second), (second, first, KEY), (KEY,)):
        with subtests.test(str(known)):
            text = redact(f"{first} {second} {second[:-1]}, {second}", known)
            assert "0123" not in text and text.count(MASK) == 4
    assert redact(f"{first} {second} {second[:-1]}", (second, first)) == "[key] [key] [key]"
    assert redact("12abcdefgh34ijkl56", ("abcdefgh34", "efgh34ijkl", "fgh34ijk")) == "12[key]56"


def test_key_is_found_in_its_json_and_html_spellings() -> None:
    key = 'a/b"c\\d&e+f=ghi'
    for spelled in (key, json.dumps(key), json.dumps(json.dumps(key)), escape(key), json.dumps(key).replace("/", "\\/")):
        assert redact(f"x {spelled} y", (key,)).strip('x y"\\') == MASK


def test_all_texts_and_names_in_structures_are_redacted(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, Any]] = [
        ({KEY: [1, (KEY, {"a": {KEY}})]}, {MASK: [1, (MASK, {"a": {MASK}})]}),
        ({KEY: 1, "x": 2, OTHER: 3, KEY[:20]: 4}, {MASK: 1, "x": 2, f"{MASK} 2": 3, f"{MASK} 3": 4}),  # no value is lost
        (Message("user", (Text(KEY), Text("b"))), Message("user", (Text(MASK), Text("b")))),
        (ToolCall(KEY, {"a": KEY}, KEY, {KEY: KEY}), ToolCall(MASK, {"a": MASK}, MASK, {MASK: MASK})),
        (KEY.encode(), KEY.encode()),
        (None, None),
    ]
    for value, expected in cases:
        with subtests.test(str(value)):
            assert redact(value, KNOWN) == expected


def test_generated_fields_are_never_redacted() -> None:
    silly = ("completed", "assistant", "run-0001", "run_finished")
    event = e.RunFinished(seq=3, at=START, run_id="run-0001", status="completed", stop_reason="natural")
    assert redact(event, silly) is event
    assert redact(Message("assistant", (Text("completed"),)), silly) == Message("assistant", (Text(MASK),))


def test_all_known_keys_are_redacted_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert redact(f"{KEY} {OTHER}") == f"{KEY} {OTHER}"
    settings.keep_key("anthropic", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", OTHER)
    assert redact([f"{KEY} {OTHER}"]) == ["[key] [key]"]


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Yield the path of each text in plain data; a path to an item's name ends in None."""
    if isinstance(value, str):
        return [path]
    if isinstance(value, dict):
        names = [(*path, name, None) for name in value]
        return names + [place for name, item in value.items() for place in _places(item, (*path, name))]
    if isinstance(value, list):
        return [place for index, item in enumerate(value) for place in _places(item, (*path, index))]
    return []


def _planted(value: Any, path: tuple[Any, ...], at: int) -> Any:
    """Return the data with the key inserted in the text at this path."""
    if not path:
        at = min(at, len(value))
        return value[:at] + KEY + value[at:]
    first, *rest = path
    if isinstance(value, list):
        return [_planted(item, tuple(rest), at) if index == first else item for index, item in enumerate(value)]
    if rest == [None]:
        return {_planted(name, (), at) if name == first else name: item for name, item in value.items()}
    return {name: _planted(item, tuple(rest), at) if name == first else item for name, item in value.items()}


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace(KEY, MASK)
    if isinstance(value, dict):
        return {_masked(name): _masked(item) for name, item in value.items()}
    return [_masked(item) for item in value] if isinstance(value, list) else value


def _is_free(path: tuple[Any, ...]) -> bool:
    return not IDS.intersection(path) and path[:1] != ("kind",) and None not in path[:2]


any_event = st.one_of(*of_kind.values())


@given(any_event, st.data())
def test_planted_key_in_an_event_is_the_only_change(event: e.AnyEvent, data: Any) -> None:
    plain = msgspec.json.decode(encode(event))
    path = data.draw(st.sampled_from([place for place in _places(plain) if _is_free(place)] or [()]))
    assume(path)
    planted = _planted(plain, path, data.draw(st.integers(0, 40)))
    try:
        event = decode(msgspec.json.encode(planted))
    except TraceError:  # a fixed word, a time, or a picture
        assume(False)
    assume(KEY.encode() in encode(event))  # not the name of a field
    redacted = redact(event, KNOWN)
    assert KEY.encode() not in encode(redacted)
    assert msgspec.json.decode(encode(redacted)) == _masked(msgspec.json.decode(encode(event)))


@given(any_event)
def test_redaction_returns_keyless_events_unchanged(event: e.AnyEvent) -> None:
    assert redact(event, KNOWN) is event


@given(json_values, st.data())
def test_planted_key_in_plain_data_does_not_survive(value: Any, data: Any) -> None:
    value = {"": value}
    planted = _planted(value, data.draw(st.sampled_from(_places(value))), data.draw(st.integers(0, 40)))
    assert redact(planted, KNOWN) == _masked(planted)
    assert redact(value, KNOWN) is value


PIECES = st.lists(st.sampled_from([KEY, OTHER, KEY[:20], KEY[:4], "-", "s", "sk-", " "]))


@given(PIECES, st.lists(st.integers(1, 9), min_size=1))
def test_streamed_redaction_equals_full_redaction_at_any_split(words: list[str], cuts: list[int]) -> None:
    text, stream, shown = "".join(words), StreamRedactor(), []
    place = 0
    while place < len(text):
        length = cuts[place % len(cuts)]
        shown.append(stream.feed(text[place : place + length], KNOWN))
        assert not any(key in "".join(shown) for key in KNOWN)
        place += length
    shown.append(stream.rest(KNOWN))
    assert "".join(shown) == redact(text, KNOWN)


@given(
    PIECES, st.lists(st.integers(1, 9), min_size=1), st.sampled_from(["\\u{:04x}", "\\\\u{:04x}", "&#{};"]), st.integers(0, 3)
)
def test_escaped_key_is_redacted_at_any_split_of_the_stream(words: list[str], cuts: list[int], form: str, every: int) -> None:
    letters = enumerate("".join(words))
    text = "".join(form.format(ord(letter)) if place % 4 <= every else letter for place, letter in letters)
    stream, shown, place = StreamRedactor(), "", 0
    while place < len(text):
        length = cuts[place % len(cuts)]
        shown += stream.feed(text[place : place + length], KNOWN)
        assert redact(shown, KNOWN) == shown
        place += length
    assert shown + stream.rest(KNOWN) == redact(text, KNOWN)


def test_start_of_an_escape_is_held_back_only_briefly() -> None:
    stream = StreamRedactor()
    pieces = ["R&D", " and", " R&", "D &am", "p; \\", "n", " \\u00", "zz", "\\" * 500, ""]
    pieces_shown = [stream.feed(piece, KNOWN) for piece in pieces]
    assert pieces_shown == ["R", "&D and", " R", "&D ", "&amp; ", "\\n", " ", "\\u00zz", "\\" * 436, ""]
    assert stream.rest(KNOWN) == "\\" * 64


def test_text_end_that_cannot_be_a_key_is_shown_immediately() -> None:
    stream = StreamRedactor()
    pieces = ["Tell", " about", "s", "ky", " sk-test-", "0123456789abcdef", "0 sk", ""]
    pieces_shown = [stream.feed(piece, KNOWN) for piece in pieces]
    assert pieces_shown == ["Tell", " about", "", "sky", " ", "[key]", "0 ", ""]
    assert (stream.rest(KNOWN), stream.rest(KNOWN)) == ("sk", "")


def test_error_is_redacted_and_drops_a_cause_with_a_key(subtests: pytest.Subtests) -> None:
    settings.keep_key("anthropic", KEY)
    for cause in (ValueError("other"), ValueError(KEY)):
        with subtests.test(str(cause)):
            with pytest.raises(ModelError) as caught:
                try:
                    raise RuntimeError("between") from cause
                except RuntimeError as between:
                    raise ModelError(f"no {KEY}", f"take {KEY}") from between
            redact_error(caught.value)
            text = "".join(traceback.format_exception(caught.value)) + repr(caught.value.args)
            assert KEY not in text and "no [key]" in text and "take [key]" in text
            assert ("RuntimeError: between" in text) == (KEY not in str(cause))


def test_key_that_ends_as_it_begins_is_redacted_while_streaming(subtests: pytest.Subtests) -> None:
    cases = {
        "one letter": ("local-key-9l",),
        "a word": ("tokentok",),
        "a letter of two": ("abcdefgha",),
        "another key begins so": ("abcdefgh-xyz", "xyz-abcdefgh"),
        "a long one": ("sk-ant-" + "a1b2c3d4" * 5 + "sk-",),
    }
    for name, secrets in cases.items():
        for cut in range(len(secrets[0]) + 1):
            with subtests.test(name, cut=cut):
                stream, text = StreamRedactor(), f"the key is {secrets[0]} ok"
                place = text.index(secrets[0]) + cut
                shown = [stream.feed(piece, secrets) for piece in (text[:place], text[place:])]
                assert "".join([*shown, stream.rest(secrets)]) == "the key is [key] ok"
