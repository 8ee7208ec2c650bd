"""docs/models.md cannot go stale: its examples run against a server of our own, its tables are held against the code."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentnb import errors, settings, testing
from agentnb.agent.policies import ending
from agentnb.models import anthropic, limiter, make_model, remote
from agentnb.models.failure import Failure, Refusal, failure
from agentnb.models.options import EFFORTS, Options, named
from agentnb.models.registry import REMOTE
from agentnb.models.retry import RetryPolicy
from agentnb.notebook.commands import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "models.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")
WORDS = " ".join(TEXT.split())
BLOCKS = list(re.finditer(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE))
NAMES = sorted(set(re.findall(rf"\b(?:{'|'.join(REMOTE)}):(?:\w+/)?NAME[^\s`\"|]*", TEXT + (ROOT / "README.md").read_text())))
DOT = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
"""A picture of one point."""


@pytest.fixture
def providers(monkeypatch: pytest.MonkeyPatch) -> Iterator[testing.LoopbackServer]:
    """In the place of all providers stands one server, and there is a key for each."""
    with testing.LoopbackServer(answer) as server:
        for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
            monkeypatch.setenv(variable, "sk-test-0123456789")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        yield server


def answer(body: dict[str, Any]) -> str:
    """JSON where it is asked for."""
    return '{"species": "Gentoo", "sure": true}' if "output_config" in body else "Hello."


def rows(heading: str) -> list[list[str]]:
    """The cells of the table that begins with this line, without its first two lines."""
    lines = TEXT.splitlines()
    start = lines.index(heading)
    found = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return found


def quoted(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


def column(heading: str, name: str) -> dict[str, str]:
    """What the table says of one provider, by the first cell of each row."""
    place = [cell.strip(" `") for cell in heading.split("|")[1:-1]].index(name)
    return {row[0]: row[place] for row in rows(heading)}


def test_the_examples_run_in_their_order(providers: testing.LoopbackServer) -> None:
    Path("figure.png").write_bytes(DOT)
    namespace: dict[str, Any] = {}
    for block in BLOCKS:
        line = TEXT[: block.start(1)].count("\n")
        exec(compile("\n" * line + block[1], str(DOCUMENT), "exec"), namespace)
    assert len(BLOCKS) > 5
    assert namespace["answer"] == {"species": "Gentoo", "sure": True}
    assert [one.problems for one in providers.requests] == [()] * len(providers.requests) and len(providers.requests) == 3


@pytest.mark.parametrize("name", NAMES)
def test_each_name_of_a_model_in_it_can_be_typed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", *re.findall(r"key=([A-Z_]+)", name)):
        monkeypatch.setenv(variable, "sk-test-0123456789")
    if name == "compatible:NAME":
        monkeypatch.setenv("AGENTNB_COMPATIBLE_URL", "http://localhost:8000/v1")
    assert re.split("[?&]", make_model(name).name) == sorted(re.split("[?&]", name), key=lambda part: _place(part))


def test_each_command_in_it_is_one() -> None:
    found = set(re.findall(r"(?<!%)%agent\s([a-z]+)", TEXT))
    assert found >= {"key", "models", "defaults"}
    assert found - set(COMMANDS) == set()


def _place(part: str) -> int:
    """Where the parts of a name stand when it is told: the model, then the options in their order."""
    return list(Options.__dataclass_fields__).index(part.split("=", maxsplit=1)[0]) + 1 if "=" in part else 0


OPTIONS = "| option | usual | for | what it says |"


def test_the_options_are_those_that_each_provider_has() -> None:
    told = {row[0].strip("`"): row[2] for row in rows(OPTIONS)}
    known = {name: set(provider.options) for name, provider in REMOTE.items()}
    assert {
        name: {option for option, users in told.items() if users == "all" or name in users.split(", ")} for name in REMOTE
    } == known
    assert set(told) == set().union(*known.values())


def test_what_is_usual_of_the_options_is_so() -> None:
    usual = Options()
    for name, told, _, meaning in rows(OPTIONS):
        value = getattr(usual, name.strip("`"))
        expected = {True: "yes", False: "no", None: "", (): "", 300.0: "300"}.get(value, value)
        assert told == expected, name
        if name == "`effort`":
            assert quoted(meaning) == set(EFFORTS)
    assert named(usual) == ""


KINDS = "| | `anthropic` | `openai` | `openai-responses` | `ollama` | `compatible` |"


@pytest.mark.parametrize("name", REMOTE)
def test_what_each_kind_can_do_is_as_its_provider_says(name: str) -> None:
    told, provider = column(KINDS, name), REMOTE[name]
    variable = settings.KEY_VARIABLES.get(name)
    assert quoted(told["key"]) == ({variable} if variable else {"key="})
    assert (variable is not None) == provider.needs_key
    assert quoted(told["URL from"]) == {settings.URL_VARIABLES[name]}
    assert ("images=yes" in told["pictures"]) != provider.sees
    assert ("parallel=no" in told["several calls in one reply"]) == ("parallel" in provider.options)
    assert ("thinking=adaptive" in told["thinking, shown"]) == ("thinking" in provider.options)
    assert ("marked" in told["prompt cache"]) == ("cache" in provider.options)


ERRORS = "| error | when | tried again | what to do |"


def test_the_errors_are_those_there_are() -> None:
    told = {name for row in rows(ERRORS) for name in quoted(row[0])}
    there = {name for name, one in vars(errors).items() if isinstance(one, type) and issubclass(one, errors.ModelError)}
    assert told == there - {"ModelError", "ScriptEnded"} | {"MissingKey"}


def test_each_status_is_the_error_it_is_said_to_be() -> None:
    seen = set()
    for error, when, again, _ in rows(ERRORS):
        for status in map(int, re.findall(r"\b[45][0-9]{2}\b", when)):
            seen.add(status)
            found = meant(status)
            assert quoted(error) == {type(found.error).__name__}, status
            assert found.passing == (again == "yes"), status
    assert seen >= {400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529}
    overflow = meant(400, "This model's maximum context length is 128000 tokens.")
    assert isinstance(overflow.error, errors.ContextOverflow) and not overflow.passing


def meant(status: int, message: str = "") -> Failure:
    return failure(Refusal("anthropic", "NAME", status, "", message))


def test_the_waits_are_those_of_the_policy() -> None:
    policy = RetryPolicy()
    for (what, retries, seconds), status in zip(rows("| | retries | seconds before each |"), (429, 500), strict=True):
        waits = [policy.wait(meant(status), attempt, 0.0, 0.5) for attempt in range(1, 20)]
        assert [f"{wait:g}" for wait in waits if wait is not None] == seconds.split(", "), what
        assert len([wait for wait in waits if wait is not None]) == int(retries)
    assert f"more than {policy.longest_wait:g} seconds" in WORDS and f"more than {policy.most_waiting:g}, the call" in WORDS
    assert f"At most {limiter.MOST_AT_ONCE} calls" in WORDS
    assert f"({anthropic.MAX_TOKENS:,}, and" in WORDS


def test_every_stop_reason_that_has_an_end_of_its_own_is_told() -> None:
    table = rows("| the reply | what follows |")
    for reasons in (ending.CUT, ending.NO_ROOM, ending.REFUSED, {ending.PAUSED}):
        assert [row[0] for row in table if quoted(row[0]) == reasons] != [], reasons
    assert (remote.MOST_TURNS, ending.MOST_PAUSES) == (10, 3)  # in words there


def test_whatever_can_go_wrong_on_demand_is_named() -> None:
    wrong = {
        name
        for name in testing.__all__
        if isinstance(one := getattr(testing, name), type) and issubclass(one, testing.Misbehaviour)
    }
    assert wrong - {"Misbehaviour"} <= quoted(TEXT[TEXT.index("What can go wrong on demand") :])
