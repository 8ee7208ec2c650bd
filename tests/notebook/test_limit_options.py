"""Options of a cell that limit its run, and defaults of the session, in a real kernel."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import pytest
from asserted_sentences import Snapshot

from agentnb.context.history_settings import FULL, History
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.notebook.agent_options import AgentOptions, make_agent
from agentnb.notebook.cells.limit_options import OPTIONS, typed_settings
from agentnb.notebook.magic_errors import parse_options
from agentnb.notebook.magics import AgentMagics
from agentnb.session.option_defaults import LIMIT_KEYS, OTHERS, SESSION_BUDGET, may_be_empty
from agentnb.session.session import Session

PLAN = "- first `add(1)`\n- second `add(a=3, b=4)`\n"
PRICED = """
from agentnb import ToolCall, History
from agentnb.models import ScriptedModel
from agentnb.core.messages import Message, Text
from agentnb.core.usage import Usage
from agentnb.models.model import Reply
def paid(words='Paid.', cost=0.25):
    return Reply(Message('assistant', (Text(words),)), usage=Usage(cost=cost), stop_reason='end_turn')
class Unpriced:
    name = 'mine:unpriced'
    async def stream(self, request):
        yield paid(cost=None)
unpriced = Unpriced()
"""


def options(line: str) -> dict[str, Any]:
    found: Namespace = parse_options(AgentMagics.agent_cell, line)
    return typed_settings(found)


def test_only_given_limit_options_become_settings() -> None:
    assert options("-t add") == {}
    line = (
        "--max-rounds 7 --max-tool-calls 9 --max-tool-calls-per-turn 8 --max-seconds 1.5 --max-tokens 1000 --budget $0.5 "
        "--unpriced --on-limit final-answer --history full --no-instructions"
    )
    assert options(line) == {
        "max_rounds": 7,
        "max_tool_calls": 9,
        "max_tool_calls_per_turn": 8,
        "max_seconds": 1.5,
        "max_tokens": 1000,
        "budget": 0.5,
        "unpriced": True,
        "on_limit": "final_answer",
        "history": "full",
        "instructions": False,
    }


def test_limit_options_and_defaults_have_the_same_names() -> None:
    assert {name.removeprefix("--").removeprefix("no-") for name in OPTIONS} == {*LIMIT_KEYS, *OTHERS} - {SESSION_BUDGET}


def test_cell_overrides_defaults_and_none_removes_a_limit() -> None:
    session, variables = Session(), {"model": ScriptedModel([]), "brief": History(compact_above=8, keep_recent=3)}
    for key, value in (("max-seconds", "60"), ("budget", "2"), ("max-tokens", "99"), ("history", "documented")):
        session.set_default(key, value)
    chosen = AgentOptions("model", settings=options("--budget 0.5 --max-tokens none --history brief"))
    agent, _ = make_agent(chosen, session, variables)
    limits = agent.limits
    assert (limits.max_seconds, limits.budget, limits.max_tokens, agent.sends) == (60, 0.5, None, variables["brief"])
    agent, _ = make_agent(AgentOptions("model", settings={"history": "full"}), session, variables)
    assert agent.sends == FULL and agent.budget == 2


def test_invalid_value_is_refused(subtests: pytest.Subtests) -> None:
    for line, expected in [
        ("--budget cheap", "Argument --budget: must be a positive amount in US dollars, got 'cheap'"),
        ("--budget 0", "Argument --budget: must be a positive amount in US dollars, got '0'"),
        ("--max-seconds soon", "Argument --max-seconds: must be a positive number of seconds, got 'soon'"),
        ("--max-tokens 1.5", "Argument --max-tokens: must be a whole number above 0, got '1.5'"),
        ("--on-limit explode", "Argument --on-limit: must be one of stop, final_answer, raise, got 'explode'"),
        ("--budgte 3", "Did you mean --budget"),
        ("--budget", "expected one argument"),
    ]:
        with subtests.test(line):
            with pytest.raises(SettingsError) as refused:
                options(line)
            assert expected in str(refused.value)


def test_options_accept_underscores_and_leave_values_unchanged() -> None:
    line = "--max_rounds 7 --max_tool_calls_per_turn=3 --no_instructions --on-limit final_answer --tag=--max_rounds -o my_run"
    found = parse_options(AgentMagics.agent_cell, line)
    assert typed_settings(found) == {
        "max_rounds": 7,
        "max_tool_calls_per_turn": 3,
        "instructions": False,
        "on_limit": "final_answer",
    }
    assert (found.tag, found.out) == (["--max_rounds"], "my_run")
    with pytest.raises(SettingsError, match="Did you mean --max-rounds"):
        options("--max_round 7")


def test_unknown_history_is_refused_with_available_ones() -> None:
    variables = {"model": ScriptedModel([]), "brief": History(), "number": 3}
    for name in ("breif", "number"):
        with pytest.raises(SettingsError, match=rf"There is no history '{name}'.*History\(\.\.\.\)"):
            make_agent(AgentOptions("model", settings={"history": name}), Session(), variables)
    with pytest.raises(SettingsError, match="Did you mean brief"):
        make_agent(AgentOptions("model", settings={"history": "breif"}), Session(), variables)


# In a kernel


@pytest.fixture
def clean(kernel: Any) -> Iterator[Any]:
    """Return the kernel, and restore its defaults afterwards."""
    kernel.run(PRICED)
    yield kernel
    limits = " ".join(f"{key}=" for key in filter(may_be_empty, LIMIT_KEYS))
    switches = "on-limit=stop on-stop=raise history=auto instructions=yes unpriced=no session-budget="
    done = kernel.run(f"%agent defaults max-rounds=50 {switches} {limits}")
    assert done.status == "ok", done.error


@pytest.mark.req("KX.2")
def test_reached_limit_is_the_stop_reason_and_shows_a_card(clean: Any, subtests: pytest.Subtests) -> None:
    for option, reason in [
        ("--max-rounds 1", "max_rounds"),
        ("--max-tool-calls 1", "max_tool_calls"),
        ("--max-tool-calls-per-turn 1", "max_tool_calls_per_turn"),
        ("--max-tokens 10", "max_tokens"),
    ]:
        with subtests.test(option):
            cell = clean.run(f"%%agent -m simulated:disciplined -t add {option}\n{PLAN}")
            assert cell.status == "ok", cell.error
            assert clean.value("run.status, run.stop_reason") == f"('limited', '{reason}')"
            assert cell.printed == "" and cell.result == {} and "--continue" in cell.shown


def test_budget_accepts_a_dollar_sign_or_a_variable(clean: Any) -> None:
    clean.run("most = 0.2")
    for written in ("0.2", "$0.2", "{most}", "$most"):
        clean.run("model = ScriptedModel([[ToolCall('add', {'a': 1})]] + [paid()])")
        cell = clean.run(f"%%agent -m model -t add --budget {written}\nGo.")
        assert cell.status == "ok", cell.error
        assert clean.value("run.settings['budget']") == "0.2", written


def test_time_limit_interrupts_a_sync_tool(clean: Any) -> None:
    cell = clean.run("%%agent -t nap --max-seconds 0.3\n- sleep `nap(50)`")
    assert cell.status == "ok", cell.error
    assert clean.value("run.status, run.stop_reason") == "('limited', 'max_seconds')"


@pytest.mark.req("K2.2")
def test_limit_raised_as_an_error_keeps_the_run(clean: Any, snapshot: Snapshot) -> None:
    cell = clean.run(f"%%agent -t add --max-rounds 1 --on-limit raise -o mine\n{PLAN}")
    assert cell.status == "error"
    assert cell.error == snapshot
    assert clean.value("mine.status, len(mine.rounds)") == "('limited', 1)"
    went_on = clean.run("%%agent -t add --continue\nGo on.")
    assert went_on.status == "ok" and clean.value("run.continued_from == mine.id") == "True"


@pytest.mark.req("K2.2")
def test_final_answer_at_a_limit_is_the_result(clean: Any, snapshot: Snapshot) -> None:
    clean.run("model = ScriptedModel([ToolCall('add', {'a': 1}), 'As far as I came: 3.'])")
    cell = clean.run("%%agent -m model -t add --max-rounds 1 --on-limit final_answer\nAdd.")
    assert cell.status == "ok" and cell.printed == ""
    assert cell.result == {} and "As far as I came: 3." in cell.shown
    assert clean.value("run.status, run.is_answered, run.text") == snapshot
    assert clean.value("Out[max(Out)] == run.text, type(Out[max(Out)]).__name__") == "(True, 'Answer')"
    assert "then answered with its results so far" in cell.shown and cell.shown.count("As far as I came") == 1


def test_budget_without_a_known_price_is_refused_unless_allowed(clean: Any) -> None:
    cell = clean.run("%%agent -m unpriced --budget 1 -o never\nGo.")
    assert cell.status == "error" and "\n" not in cell.error
    assert "The price of mine:unpriced is unknown" in cell.error and "--unpriced" in cell.error
    assert clean.value("'never' in globals()") == "False"
    assert clean.run("%%agent -m unpriced --budget 1 --unpriced\nGo.").status == "ok"
    clean.run("%agent defaults budget=1 unpriced=yes")
    assert clean.run("%%agent -m unpriced\nGo.").status == "ok"


def test_cells_and_background_runs_share_the_session_budget(clean: Any) -> None:
    spent = float(clean.value("get_ipython()._agentnb_session.budget.spent"))
    shown = clean.run(f"%agent defaults session-budget={spent + 0.5}").printed
    assert f"session-budget={spent + 0.5} (" in shown and "$0.5000 left)" in shown
    clean.run("model = ScriptedModel([paid() for _ in range(9)])")
    clean.run("%%agent -m model\nOne.")
    assert "$0.2500 left" in clean.run("%agent status").printed
    clean.run("%%agent -m model --background\nTwo.")
    clean.run("import time\nwhile run.should_continue: time.sleep(0.01)")
    assert "$0 left" in clean.run("%agent defaults").printed
    cell = clean.run("%%agent -m model -o never\nThree.")
    assert cell.status == "error" and "The session budget is used up" in cell.error
    assert "%agent defaults session-budget=" in cell.error and "\n" not in cell.error
    assert clean.value("'never' in globals()") == "False"


def test_repository_instructions_can_be_omitted(clean: Any) -> None:
    clean.run("from pathlib import Path\nPath('.git').mkdir()\nPath('AGENTS.md').write_text('Count in octal.')")
    try:
        assert "Count in octal." in clean.run("%%agent --dry\nHi").printed
        assert "Count in octal." not in clean.run("%%agent --dry --no-instructions\nHi").printed
        clean.run("%agent defaults instructions=no")
        assert "Count in octal." not in clean.run("%%agent --dry\nHi").printed
    finally:
        clean.run("Path('AGENTS.md').unlink()\nPath('.git').rmdir()")


def test_dry_run_shows_only_the_limits_that_were_set(clean: Any) -> None:
    assert "Limits" not in clean.run("%%agent --dry -t add\nHi").printed
    clean.run("%agent defaults max-seconds=60")
    printed = clean.run("%%agent --dry --budget 0.5 --max-rounds 7 --on-limit raise\nHi").printed
    assert "Run limits: max-rounds 7, max-seconds 60, budget $0.5, on-limit raise\n" in printed


def test_help_lists_every_limit_option(clean: Any) -> None:
    help_text = AgentMagics.agent_cell.__doc__ or ""
    assert [name for name in OPTIONS if name not in help_text] == []


LAST_WORDS = """
from agentnb import ToolCall
from agentnb.models import ScriptedModel
adds = [ToolCall('add', {'a': 1})]
blank = ScriptedModel([adds, ' '])
cut, talks = ScriptedModel([['I add.', *adds], 'Never.']), ScriptedModel([adds, ['I add on.', *adds]])
"""


@pytest.mark.req("K2.2")
def test_text_truncated_at_a_limit_is_not_a_result(clean: Any, subtests: pytest.Subtests) -> None:
    for model, on_limit in [("cut", "stop"), ("blank", "final_answer"), ("talks", "final_answer")]:
        with subtests.test(model):
            assert clean.run(LAST_WORDS).status == "ok"
            cell = clean.run(f"%%agent -t add -m {model} --max-rounds 1 --on-limit {on_limit}\nGo.")
            assert (cell.status, cell.result) == ("ok", {})
            assert clean.value("run.status, run.is_answered") == "('limited', False)"
