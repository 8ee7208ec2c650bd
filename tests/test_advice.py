"""Advice: values that one table words for each surface."""

from __future__ import annotations

import pickle
from argparse import Namespace
from typing import get_args

import msgspec
import pytest
from asserted_sentences import Snapshot

from agentnb.advice import (
    PYTHON,
    AnyAdvice,
    AskInstead,
    Command,
    ContinueRun,
    Invocation,
    ListRuns,
    NameOne,
    Plain,
    RerunSteps,
    SetKey,
    ShowModels,
    StartAgain,
    TryAgain,
    in_python,
    in_words,
    pieces,
)
from agentnb.cli.shell_commands import SHELL
from agentnb.core.log.events import ErrorRaised, RunStarted, Warned
from agentnb.core.log.wire import decode_lines
from agentnb.display.texts.notebook_commands import NOTEBOOK, in_notebook
from agentnb.errors import SettingsError, suggest_names
from agentnb.notebook.cells.cell_invocation import invocation_of

KINDS = [kind for kind in get_args(AnyAdvice) if kind is not Plain]
LEFT_OUT = " (options that allow calls, such as --approve auto and --rule save=allow, are left out: add them yourself)"
PYTHON_RUN = Invocation(surface="python")
START = b'{"kind":"run_started","seq":0,"at":"2026-01-01T00:00:00Z","run_id":"r","schema":%d,"run_kind":"agent",'
START += b'"model":"m","system":"","tools":[],"prompt":{"role":"user","parts":[]}}\n'


def logged(schema: int, line: bytes) -> object:
    """Return the event of a line in a log of this schema."""
    head = b'{"kind":"%b","seq":1,"at":"2026-01-01T00:00:00Z","run_id":"r",'
    kind, _, rest = line.partition(b" ")
    return decode_lines([START % schema, head % kind + rest + b"}\n"], "run.jsonl")[1]


def test_each_surface_has_a_command_for_every_kind(subtests: pytest.Subtests) -> None:
    for name, commands in {"python": PYTHON, "notebook": NOTEBOOK, "shell": SHELL}.items():
        with subtests.test(name):
            assert {kind for kind in KINDS if kind not in commands} == set()


def test_advice_is_worded_for_each_surface(subtests: pytest.Subtests) -> None:
    cases = {
        TryAgain(lead="Try again", rest=", or wait"): (
            "Try again: agent.run(PROMPT, continue_from=run), or wait",
            "Try again: %%agent --continue, or wait",
            "Try again, or wait",
        ),
        ListRuns(rest=" lists them"): (
            "Store(FOLDER).ids() lists them",
            "%agent history lists them",
            "agentnb runs lists them",
        ),
        SetKey("OPENAI_API_KEY", lead="Enter it"): (
            'Enter it: os.environ["OPENAI_API_KEY"] = ...',
            "Enter it: %agent key openai",
            "Enter it: export OPENAI_API_KEY=...",
        ),
        NameOne(("add",), ("add", "sub"), more=3): ("Did you mean add?",) * 3,
        NameOne(known=("add", "sub"), more=3): ("Available: add, sub and 3 more.",) * 3,
        NameOne(known=("add", "sub"), lead="Choose one of"): ("Choose one of add, sub",) * 3,
        ContinueRun("r", ("a", "b"), lead="Continue"): (
            "Continue: agent.run(PROMPT, continue_from=run)",
            "Continue: %%agent --continue r -t a b",
            "",
        ),
        ContinueRun(by=Invocation(approve="ask", rules=("bash(rm *)=deny", "x=ask")), lead="Continue"): (
            "Continue: agent.run(PROMPT, continue_from=run)",
            "Continue: %%agent --continue --approve ask --rule 'bash(rm *)=deny' --rule x=ask",
            "",
        ),
        ContinueRun(by=Invocation(allowed=True), lead="Continue"): (
            "Continue: agent.run(PROMPT, continue_from=run)",
            f"Continue: %%agent --continue{LEFT_OUT}",
            "",
        ),
        RerunSteps(step="a", by=Invocation(allowed=True), lead="Continue"): (
            "Continue: wf.run(rerun_from='a', of=run)",
            f"Continue: %%workflow --rerun-from a above the workflow's text{LEFT_OUT}",
            "Run it again: agentnb exec FILE",
        ),
        TryAgain(by=Invocation(allowed=True), lead="Try again", rest=", or wait"): (
            "Try again: agent.run(PROMPT, continue_from=run), or wait",
            f"Try again: %%agent --continue{LEFT_OUT}, or wait",
            "Try again, or wait",
        ),
        TryAgain(by=PYTHON_RUN, lead="Try again"): (
            "Try again: agent.run(PROMPT, continue_from=run)",
            "Try again: agent.run(PROMPT, continue_from=run)",
            "Try again",
        ),
        ContinueRun(todo="1", tools=("a",), by=PYTHON_RUN, lead="Continue"): (
            "Continue: agent.run(PROMPT, continue_from=run)",
            "Continue: agent.run(PROMPT, continue_from=run)",
            "",
        ),
        RerunSteps(step="a", by=PYTHON_RUN, lead="Continue"): (
            "Continue: wf.run(rerun_from='a', of=run)",
            "Continue: wf.run(rerun_from='a', of=run)",
            "Run it again: agentnb exec FILE",
        ),
    }
    for advice, words in cases.items():
        with subtests.test(words[0]):
            assert (in_python([advice]), in_notebook([advice]), in_words([advice], SHELL)) == words


def test_options_that_allow_are_noted_but_not_kept(subtests: pytest.Subtests) -> None:
    options = Namespace(out="run", model="m", tools=[], gate="", approve=None, rules=[])
    for typed, kept in (
        ({}, Invocation(out="run", model="m")),
        ({"approve": "auto"}, Invocation(out="run", model="m", allowed=True)),
        ({"approve": "ask"}, Invocation(out="run", model="m", approve="ask")),
        ({"rules": ["x = allow"]}, Invocation(out="run", model="m", allowed=True)),
        ({"rules": ["x=allow", "y=deny"]}, Invocation(out="run", model="m", rules=("y=deny",), allowed=True)),
        ({"rules": ["y=ask"]}, Invocation(out="run", model="m", rules=("y=ask",))),
    ):
        with subtests.test(typed=typed):
            assert invocation_of(Namespace(**{**vars(options), **typed})) == kept


def test_commands_in_advice_are_separate_parts(snapshot: Snapshot) -> None:
    line = pieces("It broke", [ContinueRun(todo="2", lead="Continue"), Plain("Or wait")], NOTEBOOK)
    assert [piece for piece in line if isinstance(piece, Command)] == ["%agent todos open 2", "%%agent --continue"]
    assert "".join(line) == snapshot


def test_error_keeps_its_advice_in_another_process(snapshot: Snapshot) -> None:
    error = SettingsError("No key", SetKey("MY_KEY", lead="Enter it"))
    again = pickle.loads(pickle.dumps(error))
    assert again.advice == error.advice and str(again) == snapshot


def test_unknown_name_error_keeps_its_suggestions_when_pickled(snapshot: Snapshot) -> None:
    (advice,) = suggest_names("ad", ["add", "sub", *map(str, range(9))])
    assert (advice.similar, advice.known, advice.more) == (("add",), ("add", "sub", "0", "1", "2", "3", "4", "5"), 3)
    error = pickle.loads(pickle.dumps(SettingsError("There is no tool 'ad'", (advice, Plain("Or define it")))))
    assert error.advice[0] == advice and str(error) == snapshot


def test_advice_survives_its_log_line() -> None:
    names = NameOne(("add",), ("add", "sub"), 3)
    event = Warned(1, None, "r", message="x", advice=(SetKey("A", lead="b"), Plain("c"), names))
    assert msgspec.json.decode(msgspec.json.encode(event), type=Warned) == event


def test_hints_in_older_logs_become_advice(subtests: pytest.Subtests) -> None:
    hints: dict[str, AnyAdvice] = {
        "Try again: %%agent --continue. Wait": TryAgain(lead="Try again", rest=". Wait"),
        "Continue with --continue, or ask": TryAgain(lead="Continue", rest=", or ask"),
        "Begin a new one (a cell without --continue), or wait": StartAgain(lead="Begin a new one", rest=", or wait"),
        "Start again without --continue, or wait": StartAgain(lead="Start again", rest=", or wait"),
        'Be asked: --approve ask, approve="ask"': AskInstead(lead="Be asked"),
        "Enter another key: %agent key MY_KEY": SetKey("MY_KEY", lead="Enter another key"),
        "%agent models openai lists the available models": ShowModels("openai", rest=" lists the available models"),
        "%agent history lists the runs": ListRuns(rest=" lists the runs"),
        "Give it one more reply": Plain("Give it one more reply"),
    }
    for hint, advice in hints.items():
        with subtests.test(hint):
            error = msgspec.json.encode({"type": "X", "message": "y", "hint": hint})
            event = logged(6, b'error_raised "where":"model","error":' + error)
            assert isinstance(event, ErrorRaised) and event.error.advice == (advice,)
            assert msgspec.json.encode(event.error).find(b"hint") < 0


def test_warnings_in_older_logs_get_their_topic(subtests: pytest.Subtests) -> None:
    for message, topic in {
        "1 todo is still open:\\n1. x": "todos",
        "Filled in what the trace lacks. A": "filled",
        "z": "",
    }.items():
        with subtests.test(topic):
            event = logged(6, b'warned "message":"%b"' % message.encode())
            assert isinstance(event, Warned) and event.topic == topic


def test_prompt_placeholder_in_an_older_log_is_marked(subtests: pytest.Subtests) -> None:
    for text, marked in (("(The trace has no prompt.)", True), ("Go.", False)):
        with subtests.test(text):
            said = b'{"role":"user","parts":[{"type":"text","text":"%b"}]}' % text.encode()
            head = (START % 6).replace(b'{"role":"user","parts":[]}', said + b',"history":[' + said + b"]")
            (event,) = decode_lines([head], "run.jsonl")
            assert isinstance(event, RunStarted)
            assert [message.is_placeholder for message in (event.prompt, *event.history)] == [marked, marked]
