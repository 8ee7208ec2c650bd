"""What a guard is given is checked when it is made, and what it repeats to the model is bounded."""

from __future__ import annotations

import pytest

from agentnb import Agent, DuplicateGuard, Minimal, ToolCall, tool
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.policies.gates.gate_verdicts import MAX_REPEATED


def test_what_cannot_be_is_refused(subtests: pytest.Subtests) -> None:
    for given in [
        {"exempt": "poll"},
        {"exempt": 5},
        {"consecutive": "3"},
        {"consecutive": True},
        {"window": None},
        {"frequency": 2.5},
        {"same_result": "yes"},
        {"consecutive": 65},
    ]:
        with subtests.test(given=given):
            with pytest.raises(SettingsError):
                DuplicateGuard(**given)


def test_tools_may_be_exempt_by_name_and_as_functions() -> None:
    @tool(name="poll_it")
    def poll() -> str:
        """Polls."""
        return "same"

    guard = DuplicateGuard(exempt=[poll, "other", "tides.fetch", "mcp:clock/now"])  # type: ignore[arg-type]
    assert guard.exempt == {"poll_it", "other", "tides_fetch", "mcp_clock_now"}


def test_one_batch_alone_repeats_nothing() -> None:
    with pytest.raises(SettingsError, match="batches=1"):
        Minimal(batches=1)


@pytest.mark.req("R1.37")
def test_a_long_result_is_repeated_in_part() -> None:
    def look() -> str:
        """Looks."""
        return "x" * (MAX_REPEATED + 1_000)

    run = Agent(ScriptedModel([[ToolCall("look")] * 5, "Done."]), tools=[look]).run_sync("go")
    lengths = [len(result.text) for result in run.rounds[0].results]
    assert lengths[:2] == [MAX_REPEATED + 1_000] * 2
    assert all(length < MAX_REPEATED + 400 for length in lengths[2:])
