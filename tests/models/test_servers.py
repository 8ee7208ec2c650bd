"""Named servers: their wire variants are known, or learnt from a first refusal."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from property_settings import size

from agentnb import Agent, History, Run, settings
from agentnb.core.messages import Text, Thinking, ToolCall
from agentnb.core.run.rounds import LEARNED_TRAITS
from agentnb.errors import RequestRefused, SettingsError, UnknownModel
from agentnb.models import make_model, traits
from agentnb.models.options import Options
from agentnb.models.registry import REMOTE, endpoint_of
from agentnb.notebook.commands.models_command import provider_models
from agentnb.testing import LoopbackServer, Status
from agentnb.testing.requests.rules_chat import MINIMAL

LIKE = sorted(name for name, row in settings.SERVERS.items() if row["wire"] == "chat" and name not in ("openai", "compatible"))
SCRIPT = [[Thinking("I should add."), ToolCall("add", {"a": 1, "b": 2})], [Thinking("Said."), Text("Three.")]]


@pytest.fixture(autouse=True)
def nothing_learnt(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(traits, "_learned", {})
    return


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def run_at(server: LoopbackServer, provider: str = "", **options: Any) -> Run:
    """Return a run with a tool and a reminder after its result."""
    return Agent(server.model(provider, **options), tools=[add]).run_sync("What is 1 + 2?")


def bodies(server: LoopbackServer) -> list[dict[str, Any]]:
    return [request.body for request in server.requests if request.answered == 200]


def test_each_server_accepts_the_requests_under_its_name(subtests: pytest.Subtests) -> None:
    every = size(2, nightly=1)  # by day every second server streams
    for number, name in enumerate(LIKE):
        for stream in ("yes", "no")[number % every :: every]:
            with subtests.test(name, stream=stream), LoopbackServer(SCRIPT, like=name) as server:
                run = run_at(server, max_tokens=50, stream=stream)
                assert (run.status, run.text, server.problems, run.warnings) == ("completed", "Three.", [], ())
                assert [part.text.strip() for part in run.rounds[0].reply.parts if isinstance(part, Thinking)] == [
                    "I should add."
                ]
                assert any("reminder" in json.dumps(message) for message in bodies(server)[1]["messages"])
                assert run.usage.input and run.usage.output
                (most,) = {"max_tokens", "max_completion_tokens"} & bodies(server)[0].keys()
                assert {key for body in bodies(server) for key in body} <= MINIMAL | {most}


def test_refused_request_form_is_switched_and_remembered(subtests: pytest.Subtests) -> None:
    for name in LIKE:
        with subtests.test(name), LoopbackServer(SCRIPT, like=name, repeat=True) as server:
            first = run_at(server, "compatible", max_tokens=50)
            refused = len(server.problems)
            assert first.status == "completed" and len(first.warnings) == refused <= 3
            second = run_at(server, "compatible", max_tokens=50)
            assert second.status == "completed" and (len(server.problems), second.warnings) == (refused, ())
            learned = [one.metadata.get(LEARNED_TRAITS, {}) for one in (first.rounds[-1], second.rounds[0])]
            assert learned[0] == learned[1] and len(learned[0]) == refused


def test_refusal_is_logged_with_the_option_that_avoids_it() -> None:
    with LoopbackServer([SCRIPT[0][1], "Three."], like="mistral") as server:
        run = run_at(server, "compatible", stream_options="no")
        assert [problem.endswith("after role 'tool'") for problem in server.problems] == [True]
        (warning,) = run.warnings
        assert "alternating=yes" in str(warning) and server.url in str(warning)
        last = server.requests[-1].body["messages"][-1]
        assert last["role"] == "tool" and "<system-reminder>" in last["content"]
        assert not run.rounds[1].retries


def test_request_form_chosen_by_the_person_is_kept() -> None:
    with LoopbackServer([SCRIPT[0][1], "Never."], like="mistral") as server:
        run = run_at(server, "compatible", stream_options="no", alternating="no")
        assert run.status == "failed" and run.error.type == "RequestRefused" and len(server.problems) == 1


def test_thinking_echo_set_by_the_person_is_not_changed() -> None:
    with LoopbackServer(SCRIPT, like="groq") as server:
        run = run_at(server, "compatible", echo="yes", length_limit="max_completion_tokens")
        assert run.status == "failed" and len(server.problems) == 1


def test_runs_sharing_a_model_learn_traits_together() -> None:
    def line(body: dict[str, Any]) -> Any:
        return "Three." if any(message["role"] == "tool" for message in body["messages"]) else SCRIPT[0][1]

    async def both(model: Any) -> list[Run]:
        agent = Agent(model, tools=[add])
        return await asyncio.gather(*(agent.run("What is 1 + 2?") for _ in range(8)))

    with LoopbackServer(line, like="mistral") as server:
        runs = asyncio.run(both(make_model(server.model("compatible", stream_options="no"))))
        assert {run.status for run in runs} == {"completed"} and len(server.problems) <= 8


def test_adapted_request_is_tried_only_once() -> None:
    refusal = Status(400, "Unexpected role 'user' after role 'tool'")
    with LoopbackServer([SCRIPT[0], refusal, refusal, "Never."], minimal=True) as server:
        run = run_at(server, "compatible")
        assert run.status == "failed" and len(server.requests) == 3


def test_each_trait_changes_at_most_once_per_run() -> None:
    refused = {
        "max_tokens": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
        "max_completion_tokens": "Unrecognized request argument supplied: max_completion_tokens",
    }
    script = [Status(400, refused["max_tokens"]), SCRIPT[0], Status(400, refused["max_completion_tokens"]), "On.", "Never."]
    with LoopbackServer(script, lenient=True) as server:
        run = run_at(server, "compatible", max_tokens=50)
        assert (run.status, len(run.warnings), len(server.requests)) == ("failed", 1, 3)
        assert run_at(server, "compatible", max_tokens=50).text == "On."
        assert "length_limit" in str(run.warnings[0])


def test_each_known_refusal_text_identifies_its_trait(subtests: pytest.Subtests) -> None:
    for words, named in {
        "Unexpected role 'user' after role 'tool'": ("alternating", True),
        "Conversation roles must alternate user/assistant/user/assistant/...": ("alternating", True),
        "After the optional system message, conversation roles must alternate user and assistant roles": ("alternating", True),
        "After the (optional) system message(s), user or tool message(s) should alternate with assistant message(s).": (
            "alternating",
            True,
        ),
        "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.": ("short_ids", True),
        "System role not supported": ("system", "user"),
        "Developer instruction is not enabled for models/gemma-3-27b-it": ("system", "user"),
        "The `reasoning_content` in the thinking mode must be passed back to the API.": ("returned", "always"),
        "Missing `reasoning_content` field in the assistant message": ("returned", "always"),
        "Gemini models require OpenRouter reasoning details to be preserved in each request.": ("returned", "always"),
        "'messages.2' : for 'role:assistant' property 'reasoning_content' is unsupported": ("returned", "never"),
        "{'detail': [{'type': 'extra_forbidden', 'loc': ['body', 'messages', 2, 'assistant', 'reasoning_content']}]}": (
            "returned",
            "never",
        ),
        "{'loc': ['body', 'stream_options'], 'msg': 'Extra inputs are not permitted'}": ("stream_options", False),
        "Unknown parameter: 'parallel_tool_calls'.": ("parallel", False),
        "No endpoints found that support the provided 'tool_choice' value.": ("tool_choice_none", False),
        "invalid message content type: <nil>": ("text_content", True),
        "Invalid 'content': 'content' field must be a string or an array of objects.": ("text_content", True),
        "messages.1.content: Input should be a valid string": ("text_content", True),
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.": (
            "length_limit",
            "max_completion_tokens",
        ),
        "Unrecognized request argument supplied: max_completion_tokens": ("length_limit", "max_tokens"),
        "This model's maximum context length is 4096 tokens": None,
        "reasoning_effort: invalid value": None,
        "registry.ollama.ai/library/gemma3:4b does not support tools": None,
        "max_tokens is too large: 100000": None,
    }.items():
        with subtests.test(words):
            assert traits.named_in(words) == named


def test_thinking_fields_are_sent_only_to_their_server_and_model() -> None:
    with LoopbackServer([*SCRIPT, "So."], like="deepseek") as server, LoopbackServer(["So."], like="deepseek") as other:
        run = run_at(server)
        assert [message.get("reasoning_content") for message in bodies(server)[1]["messages"]][2] == "I should add."
        for model in (server.model().replace("loopback", "another"), other.model()):
            assert Agent(model, tools=[add]).run_sync("On", continue_from=run).status == "completed"
        assert "I should add." not in json.dumps([server.requests[-1].body, other.requests[-1].body])


def test_call_signatures_are_sent_back_to_their_server() -> None:
    with LoopbackServer(SCRIPT, like="gemini") as server:
        assert run_at(server).text == "Three." and server.problems == []
        (call,) = bodies(server)[1]["messages"][2]["tool_calls"]
        assert call["extra_content"]["google"]["thought_signature"]
        body = {**bodies(server)[1], "stream": False}
        body.pop("stream_options")
        del body["messages"][2]["tool_calls"][0]["extra_content"]
        post = httpx2.post(f"{server.url}/v1/chat/completions", json=body, headers={"authorization": "Bearer a-key"})
        assert post.status_code == 400 and "thought_signature" in post.text


def test_compaction_keeps_thinking_fields_beside_open_calls() -> None:
    def line(body: dict[str, Any]) -> Any:
        return [Thinking("I should add."), ToolCall("add", {"a": 1, "b": 2})] if "tools" in body else "They added."

    with LoopbackServer(line, like="deepseek") as server:
        history = History(compact_above=6, keep_recent=2)
        run = Agent(server.model(), tools=[add], history=history, max_rounds=8, guidance="off").run_sync("Add often.")
        assert sum(len(round_.compactions) for round_ in run.rounds) >= 2 and server.problems == []
        last = next(request.body for request in reversed(server.requests) if "tools" in request.body)
        assert "Conversation Summary" in json.dumps(last)
        called = [message for message in last["messages"] if message.get("tool_calls")]
        assert called and all(message["reasoning_content"] == "I should add." for message in called)


def test_fragments_of_reasoning_details_are_joined() -> None:
    with LoopbackServer(SCRIPT, like="openrouter") as server:
        run_at(server)
        (kept,) = [message["reasoning_details"] for message in bodies(server)[1]["messages"] if "reasoning_details" in message]
        assert kept == [{"type": "reasoning.text", "text": "I should add.", "format": "unknown", "index": 0}]


def test_message_after_a_stopped_call_follows_an_assistant_message() -> None:
    async def wait() -> str:
        """Wait."""
        await asyncio.sleep(60)
        return "x"

    with LoopbackServer([ToolCall("wait"), "Yes."], like="mistral") as server:
        agent = Agent(server.model(), tools=[wait], guidance="off", todos=False)
        stopped = Agent(server.model(), tools=[wait], guidance="off", todos=False, max_seconds=0.5).run_sync("Go")
        again = agent.run_sync("And now?", continue_from=stopped)
        assert again.text == "Yes." and server.problems == []
        roles = [message["role"] for message in bodies(server)[1]["messages"]]
        assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]


def test_calls_of_other_servers_get_ids_valid_for_mistral() -> None:
    with LoopbackServer(SCRIPT) as first, LoopbackServer(["So.", "So."], like="mistral") as server:
        run = run_at(first, "openai")
        for provider in ("mistral", "compatible"):
            again = Agent(server.model(provider), tools=[add]).run_sync("On", continue_from=run)
            assert again.status == "completed"
        assert server.requests[0].problems == ()


def test_think_tags_stay_in_the_text_only_on_request() -> None:
    with LoopbackServer(["<think>\nHm.\n</think>\n\nSo."] * 2, minimal=True) as server:
        assert run_at(server, "compatible").text == "So."
        assert run_at(server, "compatible", think_tags="no").text.startswith("<think>")


def test_system_prompt_can_be_merged_into_the_first_message() -> None:
    with LoopbackServer(["Yes."], minimal=True) as server:
        Agent(server.model("compatible", system="user"), system="Be brief.", guidance="off", todos=False).run_sync("Hello")
        (message,) = server.requests[0].body["messages"]
        assert message["role"] == "user" and message["content"].startswith("Be brief.") and message["content"].endswith("Hello")


def test_content_beside_calls_becomes_text_after_a_refusal() -> None:
    def line(body: dict[str, Any]) -> Any:
        if any(message["content"] is None for message in body["messages"]):
            return Status(400, "Invalid 'content': 'content' field must be a string or an array of objects.")
        return "Three." if len(body["messages"]) > 2 else SCRIPT[0][1]

    with LoopbackServer(line, minimal=True, lenient=True) as server:
        run = run_at(server, "compatible")
        assert run.text == "Three." and [request.answered for request in server.requests] == [200, 400, 200]
        assert "text_content=yes" in str(run.warnings[0])


def test_tools_are_omitted_for_templates_without_tool_support() -> None:
    with LoopbackServer(["Yes."], minimal=True) as server:
        assert run_at(server, "compatible", tools="no").text == "Yes."
        assert "tools" not in server.requests[0].body


def test_model_without_tools_is_reported() -> None:
    with LoopbackServer([Status(400, "registry.ollama.ai/library/gemma3:4b does not support tools")], like="ollama") as server:
        with pytest.raises(RequestRefused, match=r"does not support tools"):
            run_at(server)


def test_retries_can_be_limited(subtests: pytest.Subtests) -> None:
    for status in (429, 503):
        with subtests.test(status), LoopbackServer([Status(status)] * 2) as server:
            with pytest.raises(Exception, match=str(status)):
                run_at(server, "openai", retries=0)
            assert len(server.requests) == 1


def test_azure_url_comes_from_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "a-key-of-azure-0123456789")
    with pytest.raises(SettingsError, match="AZURE_OPENAI_ENDPOINT"):
        make_model("azure:gpt")
    for said in ("https://mine.openai.azure.com", "https://mine.openai.azure.com/openai/v1/"):
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", said)
        assert endpoint_of(REMOTE["azure"], Options(), by_person=True).url == "https://mine.openai.azure.com/openai/v1"


def test_server_models_are_listed_from_any_response_form(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url))
        found: list[Any] = [{"id": "openai/gpt-4.1"}]
        return httpx2.Response(200, json=found if len(asked) == 1 else {"data": found})

    settings = {"transport": httpx2.MockTransport(answer)}
    monkeypatch.setattr("agentnb.models.providers.openai.http_settings", lambda url: settings)
    monkeypatch.setenv("GITHUB_TOKEN", "a-token-of-github-0123456789")
    assert provider_models("github") == ["github:openai/gpt-4.1"]
    assert provider_models("github?url=http://127.0.0.1:9/v1") == ["github:openai/gpt-4.1?url=http://127.0.0.1:9/v1"]
    assert asked == ["https://models.github.ai/catalog/models", "http://127.0.0.1:9/v1/models"]


def test_unusable_name_error_has_reason_and_alternatives() -> None:
    with pytest.raises(UnknownModel, match=r"its own clients only.*github:openai/NAME"):
        make_model("copilot:gpt-5")
