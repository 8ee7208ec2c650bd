"""docs/models.md is current: its examples run against a local server, and its tables match the code."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from cells_in_ipython import in_notebook

from agentnb import Agent, errors, settings, testing
from agentnb.core.usage import Usage
from agentnb.models import defaults, make_model, prices
from agentnb.models.estimate import tokens_of_request
from agentnb.models.options import Options
from agentnb.models.options import format_options as named_options
from agentnb.models.provider import DONE, CutOff
from agentnb.models.providers import serialization
from agentnb.models.registry import REMOTE, endpoint_of
from agentnb.models.transport.failure import Failure, Refusal, broken_connection, failure
from agentnb.models.transport.retry import RetryPolicy
from agentnb.notebook.commands import COMMANDS
from agentnb.policies import ending

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "models.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")
WORDS = " ".join(TEXT.split())
BLOCKS = list(re.finditer(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE))
NAMES = sorted(set(re.findall(rf"\b(?:{'|'.join(REMOTE)}):(?:\w+/)?NAME[^\s`\"|]*", TEXT + (ROOT / "README.md").read_text())))
DOT = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
"""A picture of one pixel."""


@pytest.fixture
def providers(monkeypatch: pytest.MonkeyPatch) -> Iterator[testing.LoopbackServer]:
    """Replace all providers by one server, with a key for each."""
    with testing.LoopbackServer(answer) as server:
        for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
            monkeypatch.setenv(variable, "sk-test-0123456789")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        yield server


def answer(body: dict[str, Any]) -> str:
    """Reply with JSON where requested."""
    return '{"species": "Gentoo", "sure": true}' if "output_config" in body else "Hello."


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table with this first line, without its two heading lines."""
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
    """Return the rows of one provider, by first cell."""
    place = [name in quoted(cell) for cell in heading.split("|")[1:-1]].index(True)
    return {row[0]: row[place] for row in rows(heading)}


def blocks_after(beginning: str) -> list[str]:
    """Return the code of the blocks after these words."""
    start = TEXT.index(beginning)
    return [block[1] for block in re.finditer(r"^```(?:python)?\n(.*?)^```$", TEXT[start:], re.DOTALL | re.MULTILINE)]


def run_alone(block: re.Match[str]) -> dict[str, Any]:
    """Run a block in a fresh namespace and return its names."""
    namespace: dict[str, Any] = {}
    exec(compile("\n" * TEXT[: block.start(1)].count("\n") + block[1], str(DOCUMENT), "exec", dont_inherit=True), namespace)
    if "server" in namespace:
        namespace["server"].close()
    return namespace


def test_each_example_runs_on_its_own(providers: testing.LoopbackServer) -> None:
    Path("figure.png").write_bytes(DOT)
    made = [run_alone(block) for block in BLOCKS]
    assert len(made) > 7
    assert [request.problems for request in providers.requests] == [()] * len(providers.requests) and len(
        providers.requests
    ) == 2
    by_schema = next(one for one in made if "form" in one)
    assert by_schema["answer"] == {"species": "Gentoo", "sure": True}
    assert by_schema["run"].rounds[-1].metadata["by_schema"] is True


@pytest.mark.nightly("by day the example of a custom model runs in a notebook")
@pytest.mark.slow("starts IPython and imports the library of a provider")
def test_example_for_several_cells_runs_in_a_notebook() -> None:
    first, second = blocks_after("For several cells start it")
    shown = in_notebook(first, second, second, "[str(run.text), len(server.requests), server.close()]")
    assert "RESULT ['It is five.', 2, None]" in shown, shown


@pytest.mark.slow("starts IPython")
def test_custom_model_example_runs_its_tool_and_can_be_default() -> None:
    first, second = blocks_after("## A model of your own")[:2]
    again = second.replace(" -m adder", "")
    shown = in_notebook(
        first, second, "print(run.text)", "%agent defaults model=adder", again, "[str(run.text), run.calls_made]"
    )
    assert "RESULT ['It is 5.', 1]" in shown and "model=adder" in shown, shown


@pytest.mark.parametrize("name", NAMES)
def test_model_names_on_the_page_can_be_typed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (*settings.KEY_VARIABLES.values(), *re.findall(r"key=([A-Z_]+)", name)):
        monkeypatch.setenv(variable, "sk-test-0123456789")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://mine.openai.azure.com")
    if name == "compatible:NAME":
        monkeypatch.setenv("AGENTNB_COMPATIBLE_URL", "http://localhost:8000/v1")
    assert re.split("[?&]", make_model(name).name) == sorted(re.split("[?&]", name), key=lambda part: _place(part))


def test_commands_on_the_page_exist() -> None:
    found = set(re.findall(r"(?<!%)%agent\s([a-z]+)", TEXT))
    assert found >= {"key", "models", "defaults"}
    assert found - set(COMMANDS) == set()


def _place(part: str) -> int:
    """Return the positions of the parts of a name in a message: the model, then the options in order."""
    return list(Options.__dataclass_fields__).index(part.split("=", maxsplit=1)[0]) + 1 if "=" in part else 0


TESTED = "| provider | what the tests ran |"


def test_servers_on_the_page_list_their_tested_features() -> None:
    tested = rows(TESTED)
    named = " ".join(name for name, _ in tested)
    never = " ".join(name for name, told in tested if told.startswith("never called"))
    for server, cell in rows("| server | how to start it |"):
        assert server.removesuffix(" proxy") in named or "https://proxy.example" in cell, server
    assert "Anthropic, OpenAI (both APIs)" in never


def test_page_names_every_model_option() -> None:
    named = quoted(TEXT[TEXT.index("## Options") : TEXT.index("## Local servers")])
    assert {*chain(*(provider.options for provider in REMOTE.values()))} <= named
    assert named_options(Options()) == ""


KINDS = "| | `anthropic` | `openai` | `openai-responses` | `ollama`, `compatible` |"


def test_capabilities_on_the_page_match_the_providers(subtests: pytest.Subtests) -> None:
    for name in quoted(KINDS):
        with subtests.test(name):
            told, provider = column(KINDS, name), REMOTE[name]
            variable = settings.KEY_VARIABLES.get(name)
            assert quoted(told["key"]) == ({variable} if variable else {"key="})
            assert (variable is not None) == provider.needs_key
            assert settings.URL_VARIABLES[name] in quoted(told["URL from"])
            assert ("images=yes" in told["pictures"]) != provider.sees
            assert ("parallel=no" in told["several calls in one reply"]) == ("parallel" in provider.options)
            assert ("thinking=adaptive" in told["thinking, shown"]) == ("thinking" in provider.options)
            assert ("marked" in told["prompt cache"]) == ("cache" in provider.options)


def test_named_servers_have_address_key_and_tested_features() -> None:
    found = {}
    for write, address, key in rows("| write | address | key |"):
        (name,) = quoted(write)
        found[name.partition(":")[0]] = (quoted(address), quoted(key))
    chat = {
        name: row for name, row in settings.SERVERS.items() if row["wire"] == "chat" and name not in ("openai", "compatible")
    }
    assert found == {
        name: ({row[at] for at in ("url", "url_variable") if at in row}, {row["key"]} if "key" in row else set())
        for name, row in chat.items()
    }
    beginnings = {"real": "called", "imitated": "never called. The same server"}
    for name, row in chat.items():
        names = [names for names, told in rows(TESTED) if told.startswith(beginnings[row["tried"]])]
        assert name in re.sub("[. ]", "", " ".join(names)).lower(), name


ERRORS = "| error | when | retried | what to do |"


def test_errors_on_the_page_match_the_existing_ones() -> None:
    told = {name for row in rows(ERRORS) for name in quoted(row[0])}
    there = {name for name, one in vars(errors).items() if isinstance(one, type) and issubclass(one, errors.ModelError)}
    assert told == there - {"ModelError", "ScriptEnded", "ReplayDiverged"} | {"MissingKey", "UrlNotAllowed"}


def test_statuses_map_to_their_documented_errors() -> None:
    seen = set()
    for error, when, again, _ in rows(ERRORS):
        for status in map(int, re.findall(r"\b[45][0-9]{2}\b", when)):
            seen.add(status)
            found = meant(status)
            assert quoted(error) == {type(found.error).__name__}, status
            assert found.transient == (again == "yes"), status
    assert seen >= {400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529}
    overflow = meant(400, "This model's maximum context length is 128000 tokens.")
    assert isinstance(overflow.error, errors.ContextOverflow) and not overflow.transient


def meant(status: int, message: str = "") -> Failure:
    return failure(Refusal("anthropic", "NAME", status, "", message))


def test_documented_waits_match_the_policy() -> None:
    policy = RetryPolicy()
    for (what, retries, seconds), status in zip(rows("| | retries | seconds before each |"), (429, 500), strict=True):
        waits = [policy.wait(meant(status), attempt, 0.0, 0.5) for attempt in range(1, 20)]
        assert [f"{wait:g}" for wait in waits if wait is not None] == seconds.split(", "), what
        assert len([wait for wait in waits if wait is not None]) == int(retries)
    assert f"more than {policy.longest_wait:g} seconds" in WORDS and f"more than {policy.most_waiting:g}, or" in WORDS
    assert f"more than {policy.most_seconds:g} seconds after the first" in WORDS
    assert f"At most {defaults.MAX_AT_ONCE} calls" in WORDS and defaults.LONGEST_CLOSED == 3600  # "an hour at most"
    assert f"({defaults.MAX_TOKENS:,}, and" in WORDS


def test_silent_server_is_retried_as_often_as_documented() -> None:
    """Check it with time-outs of 300 seconds: `with timeout=300, silence is tried twice`."""
    policy, elapsed, attempts, waited = RetryPolicy(), 0.0, 0, 0.0
    silence, wait = broken_connection("anthropic", TimeoutError()), 0.0
    while wait is not None:
        attempts, elapsed = attempts + 1, elapsed + Options().timeout
        wait = policy.wait(silence, attempts, waited, 0.5, elapsed)
        waited, elapsed = waited + (wait or 0.0), elapsed + (wait or 0.0)
    assert attempts == 2 and f"with `timeout={Options().timeout:g}`, silence is tried twice" in WORDS


def test_documented_permanent_errors_are_not_retried() -> None:
    elsewhere = failure(Refusal("anthropic", "NAME", 307, "", "", {"location": "https://elsewhere.example/v1?token=1"}))
    assert isinstance(elsewhere.error, errors.RequestRefused) and not elsewhere.transient
    assert "https://elsewhere.example/v1" in elsewhere.error.hint and "token" not in str(elsewhere.error)
    assert not failure(Refusal("anthropic", "NAME", 429, "", "", {"x-should-retry": "false"})).transient
    assert not broken_connection("anthropic", OSError("certificate verify failed")).transient


def test_documented_url_suffix_is_removed(subtests: pytest.Subtests) -> None:
    for provider, path in [("openai", "chat/completions"), ("openai-responses", "responses")]:
        with subtests.test(provider):
            url = "http://localhost:8000/v1"
            for written in (url, f"{url}/", f"{url}/{path}", f"{url}/{path}/"):
                assert endpoint_of(REMOTE[provider], Options(url=written), by_person=True).url == url


def test_agents_without_a_key_ask_for_it_when_run() -> None:
    assert settings.find_key("anthropic") is None
    agent = Agent("anthropic:NAME")
    with pytest.raises(errors.MissingKey):
        agent.run_sync("Hello")
    with pytest.raises(errors.MissingKey):
        make_model("compatible:NAME?url=http://localhost:8000/v1&key=NOT_SET")
    make_model("compatible:NAME?url=http://localhost:8000/v1")


def test_key_given_as_model_name_is_refused_without_repeating_it() -> None:
    beginnings = re.findall(r"`(\w+[-_])\.\.\.`", TEXT)
    assert len(beginnings) > 1
    for beginning in beginnings:
        key = f"{beginning}0123456789abcdef"
        with pytest.raises(errors.UnknownModel) as caught:
            make_model(f"anthropic:{key}")
        assert key not in str(caught.value)


def test_numeric_thinking_is_accepted_only_by_the_documented_provider() -> None:
    reference = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert "a number of tokens (only `anthropic`," in reference
    assert [name for name, provider in REMOTE.items() if provider.thinks_by_budget] == ["anthropic"]


def test_documented_picture_formats_match_the_supported_ones() -> None:
    told = re.search(r"\(all but ([A-Z, a-z]+)\)", WORDS)
    assert told is not None
    assert {f"image/{kind.lower()}" for kind in re.findall("[A-Z][A-Za-z]+", told[1])} == serialization.PICTURES


def test_first_request_has_about_the_documented_length() -> None:
    def add(a: int) -> int:
        """Add one to a number."""
        return a + 1

    whole, own = (
        tokens_of_request(Agent("anthropic:NAME", tools=[add], todos=todos).first_request("Hi")) for todos in (True, False)
    )
    told = re.search(r"is about ([\d,]+) tokens of input, ([\d,]+) of them for the todo tool", WORDS)
    assert told is not None
    assert whole == pytest.approx(int(told[1].replace(",", "")), rel=0.06)
    assert whole - own == pytest.approx(int(told[2].replace(",", "")), rel=0.03)


def test_reply_without_an_end_marker_is_cut_off_everywhere() -> None:
    assert "a reply without its end (`finish_reason` or `[DONE]`)" in WORDS
    for name in ("openai", "ollama", "compatible"):
        reading = REMOTE[name].reading()
        reading.take({"choices": [{"index": 0, "delta": {"content": "Hello."}}]})
        with pytest.raises(CutOff):
            reading.reply()
        reading.take(DONE)
        assert reading.reply().message.text == "Hello."


def test_price_is_unknown_at_another_servers_url() -> None:
    used, at = Usage(input=1_000, output=1_000), datetime.now(UTC)
    assert prices.add_cost(used, "openai", "gpt-4o", at, None).cost is not None
    assert prices.add_cost(used, "openai", "gpt-4o", at, None, url="http://localhost:8000/v1").cost is None


def test_stop_reasons_with_special_handling_are_documented() -> None:
    table = rows("| the reply | what follows |")
    for reasons in (ending.CUT, ending.NO_ROOM, ending.REFUSED, {ending.PAUSED}):
        assert [row[0] for row in table if quoted(row[0]) == reasons] != [], reasons
    assert (defaults.MAX_TURNS, ending.MAX_PAUSES) == (10, 3)  # written as a word there


def test_faults_on_demand_are_documented() -> None:
    wrong = {
        name
        for name in testing.__all__
        if isinstance(one := getattr(testing, name), type) and issubclass(one, testing.Misbehaviour)
    }
    assert wrong - {"Misbehaviour"} <= quoted(TEXT[TEXT.index("Faults on demand") :])
