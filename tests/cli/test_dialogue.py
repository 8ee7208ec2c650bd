"""Questions as dialogues of lines: the meaning of typed lines, and messages for invalid ones."""

from __future__ import annotations

import re
from typing import Any

import pytest
from asserted_sentences import Snapshot

from agentnb.cli.terminal.dialogue import dialogue
from agentnb.core.messages import ToolCall
from agentnb.core.questions import DONE, GrantOffer, JudgedCall, NoAnswer, ToolOrigin, WaitingOnUser
from agentnb.core.run.approvals import approval_schema, judged_call

FORM = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "description": "how many"},
        "colour": {"enum": ["red", "blue"]},
        "why": {"type": "string"},
    },
    "required": ["n", "why"],
}
EITHER = {"type": "object", "properties": {"a": {"type": "integer"}}, "minProperties": 1}


def said(schema: dict[str, Any], *lines: str, kind: Any = "human_step") -> tuple[Any, list[str]]:
    """Return the answer to a question that repeats until valid, and the text before each line."""
    talk = dialogue(WaitingOnUser(kind, "Which?", schema, "q1", "step"))
    written = [next(talk), *[talk.send(line) for line in lines[:-1]]]
    with pytest.raises(StopIteration) as done:
        talk.send(lines[-1])
    return done.value.value, written


def test_long_call_is_shown_in_pages_with_the_remainder_counted() -> None:
    call = judged_call(ToolCall("shell", {"command": f"ls{' ' * 320}{'x' * 2_990}rm \x1b[2J"}), "ask")
    talk = dialogue(WaitingOnUser("approval", "May shell run?", approval_schema(), "q1", "step", call))
    first = next(talk)
    assert "ls⟨320 spaces⟩x" in first and "rm" not in first
    left = int(re.search(r"Answer \(([\d,]+) characters not shown: Enter shows more\): $", first)[1].replace(",", ""))  # type: ignore[index]
    assert first.index("ls⟨320 spaces⟩x") < first.index("1 approve")
    second = talk.send("")
    assert second.endswith("Answer: ") and left == len(second) - len("\nAnswer: ") and "rm ⟨U+001B⟩[2J" in second
    assert "Type an answer" in talk.send("")
    with pytest.raises(StopIteration) as done:
        talk.send("1")
    assert done.value.value == "approve"


def test_form_of_a_tool_starts_by_showing_its_call() -> None:
    for length, cut in {5: "", 9_000: " characters not shown: agentnb show prints all)"}.items():
        caller = judged_call(ToolCall("seat", {"to": "x" * length}), "")
        first = next(dialogue(WaitingOnUser("elicitation", "Which?", FORM, "q1", "step", asked_by="seat", caller=caller)))
        assert (
            "Asked for this call:\n    seat\n      to: xxxxx" in first and ("not shown" in first) == bool(cut) and cut in first
        )


def test_typed_text_is_parsed_as_the_expected_kind_of_answer(subtests: pytest.Subtests) -> None:
    approval = approval_schema(("always",))
    cases: list[tuple[dict[str, Any], str, Any]] = [
        ({"type": "string"}, " Vienna ", "Vienna"),
        ({"type": "string"}, "2", "2"),
        ({"type": "boolean"}, "Y", True),
        ({"type": "boolean"}, "no", False),
        ({"type": "number"}, "1.5", 1.5),
        ({"enum": ["red", "blue"]}, "2", "blue"),
        ({"enum": ["red", "blue"]}, "RED", "red"),
        ({"enum": [20, 1]}, "1", 1),
        ({"enum": ["3", "x"]}, "3", "3"),
        ({"type": "array", "items": {"type": "integer"}}, "[1, 2]", [1, 2]),
        ({"type": "object"}, '{"a": 1}', {"a": 1}),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {}}}, '{"a": 1}', {"a": 1}),
        (approval, "1", "approve"),
        (approval, "always", "always"),
        (approval, "3", "deny"),
        (approval, "yes", True),
        (approval, "deny: not today", "deny: not today"),
        (approval, '{"edit": {"path": "b"}}', {"edit": {"path": "b"}}),
    ]
    for schema, line, answer in cases:
        with subtests.test(f"{schema} {line}"):
            assert said(schema, line)[0] == answer


def test_invalid_answer_is_explained_and_asked_again(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], str, str, str]] = [
        ({"type": "string"}, "", "x", "Type an answer, or press Ctrl-D"),
        ({"type": "integer", "minimum": 1}, "0", "1", "Please enter a whole number"),
        ({"enum": ["red", "blue"]}, "3", "1", "Please choose one of: red, blue (you entered '3')"),
        ({"enum": ["red", "blue"]}, "0", "1", "you entered '0'"),
        ({"enum": ["red", "blue"]}, "9" * 5000, "1", "Please choose one of: red, blue"),
        ({"type": "boolean"}, "1", "yes", "Please choose one of: yes, no"),
        (approval_schema(), "perhaps", "2", "Please choose one of: approve, deny"),
    ]
    for schema, wrong, right, expected in cases:
        with subtests.test(f"{schema} {wrong[:9]}"):
            _, written = said(schema, wrong, wrong, right)
            assert "Which?" in written[0] and len(written) == 3
            assert all(expected in words and "Which?" not in words for words in written[1:])


def test_form_can_be_filled_field_by_field_or_at_once(snapshot: Snapshot) -> None:
    answer, written = said(FORM, "x", "3", "2", "", "because")
    assert answer == {"n": 3, "colour": "blue", "why": "because"}
    assert written[0].endswith("n (how many; a whole number): ") and "field by field" in written[0]
    assert written[1:] == snapshot
    assert said(FORM, "1", "", "it")[0] == {"n": 1, "why": "it"}
    answer, written = said(FORM, '{"n": 1}', '{"n": 1, "why": "it"}')
    assert answer == {"n": 1, "why": "it"} and "why" in written[1].partition("\n")[0]
    assert said(FORM, "1", "red", '{"not": "the form"}')[0] == {"n": 1, "colour": "red", "why": '{"not": "the form"}'}
    answer, written = said(EITHER, "", "1")
    assert answer == {"a": 1} and "Try again" in written[1]


BOOKING = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name", "minLength": 2, "maxLength": 40},
        "mail": {"type": "string", "format": "email", "description": "Where it\ngoes"},
        "guests": {"type": "integer", "minimum": 1, "maximum": 8, "default": 2},
        "room": {"type": "string", "oneOf": [{"const": "s", "title": "Single"}, {"const": "d", "title": "Double"}]},
        "meals": {"type": "array", "items": {"enum": ["breakfast", "dinner"]}, "minItems": 1},
        "sure": {"type": "boolean", "default": False},
        "home": {"type": "object", "properties": {"city": {"$ref": "#/$defs/city"}}},
        "note": {"type": "string", "pattern": "^[a-z ]*$"},
    },
    "required": ["name", "mail", "room", "meals"],
    "$defs": {"city": {"type": "string", "minLength": 2}},
}


def test_each_kind_of_field_is_prompted_for_and_validated(snapshot: Snapshot) -> None:
    lines = {
        "name": ["A", "Ada"],
        "mail": ["", "ada", "ada@example.org"],
        "guests": ["9", ""],
        "room": ["3", "suite", "2"],
        "meals": ["lunch", "Breakfast, 2"],
        "sure": ["perhaps", "Y"],
        "home": ["R", "Rome"],
        "note": ["A1", '""'],
    }
    answer, written = said(BOOKING, *[line for typed in lines.values() for line in typed], kind="elicitation")
    assert answer == {
        "name": "Ada",
        "mail": "ada@example.org",
        "guests": 2,
        "room": "d",
        "meals": ["breakfast", "dinner"],
        "sure": True,
        "home": {"city": "Rome"},
        "note": "",
    }
    assert written[1:] == snapshot
    least = said(BOOKING, "Ada", "a@b", "", "single", '["dinner"]', "", "", "")[0]
    assert least == {"name": "Ada", "mail": "a@b", "guests": 2, "room": "s", "meals": ["dinner"], "sure": False}


def test_decline_and_cancel_are_accepted_everywhere_except_in_approvals(subtests: pytest.Subtests) -> None:
    for word, no_answer in (("--decline", NoAnswer.DECLINE), ("--cancel", NoAnswer.CANCEL)):
        cases: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
            "text": ({"type": "string"}, ()),
            "choice": ({"enum": ["red"]}, ("green",)),
            "the first field": (FORM, ()),
            "a later field": (FORM, ("1", "red")),
        }
        for name, (schema, before) in cases.items():
            with subtests.test(name, word=word):
                assert said(schema, *before, word)[0] is no_answer
        answer, written = said(approval_schema(), word, "deny", kind="approval")
        assert answer == "deny" and "Please choose" in written[1]


def test_question_with_an_address_shows_host_address_and_asker(snapshot: Snapshot) -> None:
    url = "https://m\u00fcnchen.de/connect?a=1"
    talk = dialogue(WaitingOnUser("elicitation", "Connect", DONE, "q1", "c1", asked_by="MCP server clock", url=url))
    assert next(talk) == snapshot
    with pytest.raises(StopIteration) as done:
        talk.send("done")
    assert done.value.value == "done"


def test_question_names_the_asker_and_the_accepted_answers(snapshot: Snapshot) -> None:
    _, (words,) = said(approval_schema(("always",)), "approve", kind="approval")
    assert words == snapshot
    assert said({"type": "integer"}, "1", kind="elicitation")[1] == snapshot


def asked(arguments: dict[str, Any], schema: dict[str, Any], *lines: str) -> tuple[Any, list[str]]:
    """Return the answer to the question about a shell call, and the text before each line."""
    grants = (GrantOffer("bash"), GrantOffer("bash(git status *)"), GrantOffer("bash(git status *)", "project"))
    about = judged_call(ToolCall("bash", arguments), "ask", command=str(arguments["command"]), diff="-a\n+b\n", grants=grants)
    talk = dialogue(WaitingOnUser("approval", "May bash run?", approval_schema((), schema, grants), "q1", "step", about))
    written = [next(talk), *[talk.send(line) for line in lines[:-1]]]
    with pytest.raises(StopIteration) as done:
        talk.send(lines[-1])
    return done.value.value, written


SHELL = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "timeout": {"type": "integer", "minimum": 1}},
    "required": ["command"],
}


def test_approval_lists_grants_and_shows_command_and_change(snapshot: Snapshot) -> None:
    answer, (words,) = asked({"command": "git status  -s"}, SHELL, "4")
    assert answer == {"always": "bash(git status *)", "reach": "project"} and words == snapshot
    typed = "always in run: bash(git *)"
    assert asked({"command": "ls"}, SHELL, typed)[0] == typed
    assert asked({"command": "ls"}, SHELL, "deny: not now")[0] == "deny: not now"
    answer, written = asked({"command": "ls"}, SHELL, "always in run: rm(*)", "always in project: bash(*)", "5")
    assert answer == "deny" and "Please choose" in written[1]
    assert written[2].startswith("bash(*) would allow every call. Write what they have in common, such as bash(git status *)")


def test_edit_asks_for_each_argument_and_keeps_unchanged_ones() -> None:
    call = {"command": "ls  -l", "timeout": 5, "more": [1]}
    answer, written = asked(call, SHELL, "edit", "", "9")
    assert answer == {"edit": {"command": "ls  -l", "timeout": 9, "more": [1]}}
    assert written[1].endswith("command (text) [ls··-l]: ") and "[5]: " in written[2]
    answer, written = asked(call, SHELL, "Edit", "pwd", "0", "none", "2")
    assert answer == {"edit": {"command": "pwd", "timeout": 2, "more": [1]}} and "0 is less than the minimum" in written[3]
    assert asked(call, SHELL, "edit", '{"command": "id"}')[0] == {"edit": {"command": "id"}}
    answer, written = asked(call, {"type": "object"}, "edit", "x", '{"a": 1}')
    assert answer == {"edit": {"a": 1}} and written[1] == "Arguments (a JSON object): "


def asked_about(call: JudgedCall, typed: str, *wrong: str) -> tuple[Any, str]:
    """Return the answer to a question about this call, after wrong ones that are refused, and the question as written."""
    schema = approval_schema(("always",), None, call.later_offers)
    talk = dialogue(WaitingOnUser("approval", f"May {call.tool} run?", schema, "q1", "c", call))
    written = next(talk)
    for line in wrong:
        assert "Please choose one of: approve, always, deny" in talk.send(line)
    with pytest.raises(StopIteration) as done:
        talk.send(typed)
    return done.value.value, written


def test_external_agents_own_memory_is_a_choice_in_its_words(snapshot: Snapshot) -> None:
    words = ("Always allow", "Always, for git (all)")
    grants = (GrantOffer("bash(git *)"),)
    call = judged_call(ToolCall("bash", {"command": "git gc"}), "ask", agent="opencode", agent_words=words, grants=grants)
    for typed, answer in {
        "2": {"always": "bash(git *)", "reach": "run"},
        "3": {"always": "Always allow", "reach": "agent"},
        "always in agent: Always, for git (all)": "always in agent: Always, for git (all)",
    }.items():
        given, written = asked_about(call, typed, "always in run: Always allow", "always in agent: bash")
        assert given == answer
    assert written.split("\n") == snapshot


def test_grants_for_a_server_tool_are_listed_by_number(snapshot: Snapshot) -> None:
    origin = ToolOrigin("fs", "fs-server /", "read", "1", "2", "Read a file.", ("server",), "fs-server /srv")
    grants = (GrantOffer("mcp_fs_read"), GrantOffer("mcp:fs"), GrantOffer("mcp:fs", "project"))
    call = judged_call(ToolCall("mcp_fs_read", {"path": "a"}), "ask", origin=origin, grants=grants)
    for typed, answer in {
        "2": {"always": "mcp_fs_read", "reach": "run"},
        "3": {"always": "mcp:fs", "reach": "run"},
        "4": {"always": "mcp:fs", "reach": "project"},
        "always in project: mcp:fs": "always in project: mcp:fs",
    }.items():
        given, written = asked_about(call, typed)
        assert given == answer
    assert written.split("\n") == snapshot
