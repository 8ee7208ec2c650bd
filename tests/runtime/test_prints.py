"""Printed output of tools, kept with their calls."""

from __future__ import annotations

import asyncio

import pytest

from agentnb import Agent, ToolCall
from agentnb.core.log.events import ToolFinished, ToolPrinted
from agentnb.core.log.wire import encode
from agentnb.core.messages import ToolResult, as_shown
from agentnb.models import ScriptedModel
from agentnb.runtime.calls.call_reports import LEFT_OUT, MAX_KEPT, CallPrints
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.questions.elicitation import current_call
from agentnb.tools.builtin.notebook.capture import Output

KEY = "sk-ant-" + "k3Y" * 20


def kept(*texts: str) -> str:
    loop = asyncio.new_event_loop()
    prints = CallPrints(EventLog("r"), "c", loop)
    for text in texts:
        prints.write(text)
    loop.close()
    return prints.close()


def test_overwritten_line_is_kept_in_its_final_form(subtests: pytest.Subtests) -> None:
    cases = {
        "no line": ("a\nb", "a\nb"),
        "bar": ("1%\r2%\r3%\ndone\n", "3%\ndone\n"),
        "begins with a return": ("\r1%\r2%", "2%"),
        "ends with a return": ("1%\r2%\r", "2%\r"),
        "windows": ("a\r\nb\r\n", "a\nb\n"),
        "only returns": ("\r\r", "\r\r"),
        "two returns before a text": ("\r\rb", "b"),
        "two returns before a line break": ("\r\r\n", "\n"),
    }
    for name, (text, expected) in cases.items():
        with subtests.test(name):
            assert as_shown(text) == expected
            output = Output()
            output.write(text)
            assert output.text == expected
    assert kept("1%\r", "2%\r", "3%\n") == "3%\n"


def test_code_shows_a_long_line_after_a_carriage_return() -> None:
    output = Output()
    output.write("\r" + "x" * 80_000)  # a search from each character would take minutes
    assert output.text.startswith("x") and output.text.endswith("x")


def test_long_output_keeps_its_end_and_the_omitted_count(subtests: pytest.Subtests) -> None:
    line = "0123456789\n"
    for count in (MAX_KEPT // len(line), 5_000, 50_000):
        for pieces in ([line] * count, [line * count]):
            with subtests.test(count=count, pieces=len(pieces)):
                text, whole = kept(*pieces), line * count
                dropped = max(len(whole) - MAX_KEPT, 0)
                assert text == (LEFT_OUT.format(dropped) if dropped else "") + whole[-MAX_KEPT:]


def test_truncated_output_contains_no_part_of_a_key(monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    for behind in (MAX_KEPT, 2 * MAX_KEPT, 4 * MAX_KEPT):
        for end in ("", "\rend"):  # the end replaces the previous line: the text cut far above is shown
            with subtests.test(behind=behind, end=end):
                assert "k3Y" not in kept("x" * 3 * MAX_KEPT, f"{KEY}\n", "." * (behind - 30), end)


def test_output_is_logged_only_if_printed() -> None:
    event = ToolFinished(seq=0, at=None, run_id="r", result=ToolResult("c", "t"))  # type: ignore[arg-type]
    assert b"printed" not in encode(event)


def test_output_streams_live_without_prints_of_watchers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    texts: list[str] = []
    own: list[bool] = []

    class Shows:
        shows_prints = True

        def __call__(self, item: object) -> None:
            if isinstance(item, ToolPrinted):
                texts.append(item.text)
                own.append(current_call.get() is None)

    async def speak() -> None:
        call = current_call.get()
        assert call is not None
        assert call.note_print("<one>\n") and call.note_print("2%\r") and call.note_print(f"3% {KEY[:12]}")
        while len(texts) < 2:
            await asyncio.sleep(0)
        assert call.note_print(KEY[12:])

    agent = Agent(ScriptedModel([ToolCall("speak"), "Done."]), tools=[speak], todos=False)
    run = agent.run_sync("go", watch=Shows())
    assert texts[:2] == ["<one>\n", "<one>\n3% "] and own[:2] == [True, True]
    assert run.rounds[0].records[0].printed == "<one>\n3% [key]"
    assert all("3% " not in str(message) for message in run.messages)
