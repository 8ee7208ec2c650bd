"""Numbers and switches of the loop that the environment can set."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from agentnb import settings
from agentnb.agent.agent import Agent
from agentnb.errors import SettingsError
from agentnb.models.scripted import ScriptedModel

NUMBERS: dict[str, tuple[Callable[[], int | None], int | None, int, int]] = {
    "AGENT_MAX_ITERATIONS": (settings.max_iterations, 50, 1, 1_000),
    "AGENT_MAX_TOKENS": (settings.max_tokens, None, 1, 1_000_000),
    "AGENT_MAX_MESSAGES": (settings.max_messages, 40, 2, 1_000_000),
    "COMPACT_THRESHOLD": (settings.compact_threshold, 30, 2, 1_000_000),
    "COMPACT_KEEP_RECENT": (settings.compact_keep_recent, 10, 1, 1_000_000),
}
"""Parser, default and range of each variable."""

SWITCHES = {"COMPACT_ENABLED": settings.compact_enabled, "TOOLS_ENABLED": settings.tools_enabled}


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (*NUMBERS, *SWITCHES, "AGENT_MODE"):
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.req("R2.15", "K2.3")
def test_unset_variables_have_the_documented_defaults() -> None:
    assert [read() for read, *_ in NUMBERS.values()] == [50, None, 40, 30, 10]
    assert [read() for read in SWITCHES.values()] == [True, True]


@pytest.mark.req("R2.15")
def test_variable_is_reread_each_time(monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    for variable, (read, usual, least, most) in NUMBERS.items():
        with subtests.test(variable):
            for said, number in (("7", 7), (" 8\n", 8), ("0009", 9), (str(least), least), (str(most), most)):
                monkeypatch.setenv(variable, said)
                assert read() == number
                assert [other() for name, (other, *_) in NUMBERS.items() if name != variable] == [
                    other_usual for name, (_, other_usual, *_) in NUMBERS.items() if name != variable
                ]
            monkeypatch.delenv(variable)
            assert read() == usual


@pytest.mark.req("R2.16")
def test_invalid_or_out_of_range_number_counts_as_unset(monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    for variable, (read, usual, least, most) in NUMBERS.items():
        with subtests.test(variable):
            bad = [
                "",
                " ",
                "many",
                "5.0",
                "1e3",
                "1_000",
                "1,000",
                "٣",
                "²",
                "0x10",
                "+7",
                "-7",
                "None",
                "true",
                "7 8",
                "9" * 5000,
            ]
            for said in (*bad, str(least - 1), str(most + 1)):
                monkeypatch.setenv(variable, said)
                assert read() == usual, said


digits = st.text("0123456789 ", max_size=9)
texts = digits | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)


@pytest.mark.req("R2.16")
@hypothesis_settings(max_examples=100, deadline=None, database=None)
@given(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12), st.sampled_from(sorted(NUMBERS))
)
def test_number_of_any_variable_is_in_range_or_default(said: str, variable: str) -> None:
    read, usual, least, most = NUMBERS[variable]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(variable, said)
        number = read()
    assert number == usual or (number is not None and least <= number <= most and int(said) == number)


@pytest.mark.req("R2.15")
def test_switch_accepts_its_words_in_any_case(monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    for variable, switch in SWITCHES.items():
        with subtests.test(variable):
            for yes, no in (("true", "false"), ("1", "0"), ("yes", "no"), ("on", "off"), ("TRUE", "FALSE"), (" Yes ", " No ")):
                monkeypatch.setenv(variable, no)
                assert switch() is False
                monkeypatch.setenv(variable, yes)
                assert switch() is True


@pytest.mark.req("R2.16")
@pytest.mark.parametrize("variable", SWITCHES)
@pytest.mark.parametrize("said", ["", "2", "00", "maybe", "y", "n", "not", "disabled"])
def test_unclear_switch_counts_as_unset(variable: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, said)
    assert SWITCHES[variable]() is True


@pytest.mark.req("R2.15")
def test_every_variable_is_documented_with_its_default() -> None:
    source, table = Path(settings.__file__).read_text(encoding="utf-8"), settings.__doc__ or ""
    rows = {found[1]: found[2] for found in re.finditer(r"^``(\w+)`` +(.*)$", table, re.MULTILINE)}
    assert set(re.findall(r'_(?:number|switch|environment)\("(\w+)"', source)) == {
        "AGENTNB_MODEL",
        "AGENTNB_ALLOW_URLS",
        *NUMBERS,
        *SWITCHES,
        "AGENT_MODE",
    }
    for variable, (_, usual, *_) in NUMBERS.items():
        assert rows[variable].endswith(f"; {usual or 'its own'}")
    for variable in SWITCHES:
        assert rows[variable].endswith("; yes")


def test_round_limit_default_equals_the_agents() -> None:
    assert Agent(ScriptedModel([]), max_rounds=settings.MAX_ITERATIONS).max_rounds == settings.MAX_ITERATIONS
    with pytest.raises(SettingsError):
        Agent(ScriptedModel([]), max_rounds=settings.MAX_ITERATIONS + 1)
