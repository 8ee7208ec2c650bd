"""Guards validate their settings and bound the repeated results."""

from __future__ import annotations

import pytest

from agentnb import Agent, DuplicateGuard, Minimal, ToolCall, tool
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.policies.gates.gate_verdicts import MAX_REPEATED


def test_invalid_settings_are_refused(subtests: pytest.Subtests) -> None:
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


def test_exempt_tools_may_be_names_or_functions() -> None:
    @tool(name="poll_it")
    def poll() -> str:
        """Polls."""
        return "same"

    guard = DuplicateGuard(exempt=[poll, "other", "tides.fetch", "mcp:clock/now"])  # type: ignore[arg-type]
    assert guard.exempt == {"poll_it", "other", "tides_fetch", "mcp_clock_now"}


def test_batch_limit_of_one_is_refused() -> None:
    with pytest.raises(SettingsError, match="batches=1"):
        Minimal(batches=1)


@pytest.mark.req("R1.37")
def test_long_earlier_result_is_repeated_only_in_part() -> None:
    def look() -> str:
        """Looks."""
        return "x" * (MAX_REPEATED + 1_000)

    run = Agent(ScriptedModel([[ToolCall("look")] * 5, "Done."]), tools=[look]).run_sync("go")
    lengths = [len(result.text) for result in run.rounds[0].results]
    assert lengths[:2] == [MAX_REPEATED + 1_000] * 2
    assert all(length < MAX_REPEATED + 400 for length in lengths[2:])
