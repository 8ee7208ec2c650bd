"""Blanks and invisible characters are visible in an approval."""

from __future__ import annotations

import sys
import unicodedata

import msgspec
import pytest
from msgspec.structs import replace
from run_builder import RunBuilder

from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.messages import Message, ToolCall
from agentnb.core.questions import WaitingOnUser
from agentnb.core.run.approvals import approval_schema, judged_call
from agentnb.display.texts.foreign_log import describe_log
from agentnb.display.texts.judged_call import call_text, question_text
from agentnb.display.texts.visible_text import visible

SEEN = {
    "rm -rf /": "rm -rf /",
    "two  blanks": "two··blanks",
    f"ls{' ' * 320}; rm": "ls⟨320 spaces⟩; rm",
    f"ls{chr(10) * 50}rm": "ls⟨50 line breaks⟩\nrm",
    "a\nb\r\nc": "a\nb\nc",
    "a\rb\tc": "a⟨U+000D⟩b⟨tab⟩c",
    "\x1b[2J\x1b]52;c;YQ==\x07": "⟨U+001B⟩[2J⟨U+001B⟩]52;c;YQ==⟨U+0007⟩",
    "\x9b2J\x85": "⟨U+009B⟩2J⟨U+0085⟩",
    "exe\u202etxt\u2066\u200b\u200d\ufeff\u00ad": "exe⟨U+202E⟩txt⟨U+2066⟩⟨U+200B⟩⟨U+200D⟩⟨U+FEFF⟩⟨U+00AD⟩",
    "\u00a0\u2003\u3000\u2028\u2800\u3164": "⟨U+00A0⟩⟨U+2003⟩⟨U+3000⟩⟨U+2028⟩⟨U+2800⟩⟨U+3164⟩",
    "\U000e0041\ufe0f\ud800\ue000": "⟨U+E0041⟩⟨U+FE0F⟩�⟨U+E000⟩",
    "Grüße, 你好, naïve, é, ❄": "Grüße, 你好, naïve, é, ❄",
}


def test_invisible_characters_are_replaced_by_visible_signs(subtests: pytest.Subtests) -> None:
    for text, seen in SEEN.items():
        with subtests.test(ascii(text)):
            assert visible(text) == seen


def test_no_invisible_character_remains() -> None:
    shapeless = {"Cc", "Cf", "Zl", "Zp", "Zs"}
    every = (chr(number) for number in range(sys.maxunicode + 1) if number not in (ord(" "), ord("\n")))
    shown = visible("".join(char for char in every if unicodedata.category(char) in shapeless))
    assert not {char for char in shown if unicodedata.category(char) in shapeless}


def about(arguments: object, message: str = "May shell run?") -> WaitingOnUser:
    call = judged_call(ToolCall("shell", arguments), "approval")
    return WaitingOnUser("approval", message, approval_schema(), "q1", "c1", call)


def test_complete_call_is_shown_argument_by_argument(subtests: pytest.Subtests) -> None:
    for arguments, expected in {
        '{"command":"ls","n":5}': "shell\n  command: ls\n  n: 5",
        '{"command":"ls\\nrm -rf /\\n  n: 5"}': "shell\n  command: \n    ls\n    rm -rf /\n    ··n: 5",
        '{"a\\u202eb":"c  d"}': 'shell\n  "a⟨U+202E⟩b": c··d',
        '{"n: 5\\n  command":"ls"}': 'shell\n  "n: 5\\n··command": ls',
        '{"n":"5","s":" a","t":"","u":"true"}': 'shell\n  n: "5"\n  s: " a"\n  t: ""\n  u: "true"',
        '{"a":{"b":[1,"x\\n  c: 2"]},"c":{}}': "shell\n  a: \n    b: \n      - 1\n      - \n        x\n        ··c: 2\n  c: {}",
        "[1]": "shell: [1]",
    }.items():
        with subtests.test(arguments):
            assert call_text(about(msgspec.json.decode(arguments))) == expected
    assert call_text(about({"a": 1}, 'May shell run with {"a":1}?')) == ""
    assert call_text(about({"a": object})).startswith("shell: ")
    forged = replace(about({"n": 5}), about=judged_call(ToolCall("ls\n  n: 1", {}), "approval"))
    assert call_text(forged) == '"ls\\n··n: 1"'
    long = {"a": "b" * 20_000}
    assert len(call_text(about(long, f"May shell run with {msgspec.json.encode(long).decode()}?"))) > 20_000


def test_approval_sentence_makes_long_whitespace_visible() -> None:
    hidden = f"Run ls{' ' * 400}; rm?"
    assert question_text(about({}, hidden)) == "Run ls⟨400 spaces⟩; rm?"
    assert question_text(WaitingOnUser("elicitation", hidden, {}, "q1")) == hidden


def test_question_about_a_log_lists_its_fields() -> None:
    workflow = {"text": "workflow: [...]", "files": {"inner.yaml": "agents: {}\nworkflow: []"}}
    settings = {"approve": "auto", "gates": ["careful"], "workflow": workflow}
    first = RunBuilder(model="evil:x\n  gates          none", settings=settings)
    call = ToolCall("shell", {"command": f"ls{' ' * 320}; rm"}, "c1")
    question = replace(about({"command": "rm"}), id="q1")
    first.add(e.RoundStarted, index=0, reason="prompt").add(e.ModelReplied, message=Message("assistant", (call,)))
    first.add(e.QuestionAsked, question=question).add(e.QuestionAnswered, question_id="q1", answer="always")
    for number in range(2, 16):
        first.add(e.QuestionAsked, question=replace(question, id=f"q{number}", message=f"May {number} run?"))
        first.add(e.QuestionAnswered, question_id=f"q{number}", answer="approve")
    first.add(w.GrantGiven, grant_id="g1", tool="send").add(w.GrantGiven, grant_id="g2", tool="gone")
    first.add(w.GrantWithdrawn, grant_id="g2")
    lines = describe_log(first.run).split("\n")
    assert "was not written by your agentnb" in lines[0]
    for line in (
        "  gates          careful",
        '  runs next      shell {"command":"ls⟨320 spaces⟩; rm"}',
        '  always allowed always, to: May shell run? (shell {"command":"rm"})',
        "  always allowed send",
        "  answered       4 more questions",
        "  file           inner.yaml",
    ):
        assert line in lines, lines
    assert not any("gone" in line for line in lines), "a grant that was taken back"
    assert sum(line.startswith("  gates") for line in lines) == 1, "a model name adds no line"
