"""Creating models from names."""

from __future__ import annotations

import asyncio
import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
from quick_models import reply_of

from agentnb import Agent, Store
from agentnb.display.texts.notebook_commands import error_in_notebook
from agentnb.errors import AgentnbError, MissingKey, ModelError, SettingsError, UnknownModel
from agentnb.models import RemoteModel, ScriptedModel, SimulatedModel
from agentnb.models.options import Options
from agentnb.models.registry import DEFAULT, PROVIDERS, REMOTE, check_model, endpoint_of, make_model, names, wire_form
from agentnb.models.simulated.personas import PERSONAS
from agentnb.models.transport.connections import Endpoint
from agentnb.testing import LoopbackServer, Status

SECRET = "sk-never-to-be-seen-0123456789"
WITH_KEY = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY", "openai-responses": "OPENAI_API_KEY"}


def test_default_model_needs_no_key() -> None:
    model = make_model(DEFAULT)
    assert isinstance(model, SimulatedModel) and model.name == DEFAULT


def test_options_follow_a_question_mark() -> None:
    model = make_model("simulated:disciplined?delay=0.5")
    assert isinstance(model, SimulatedModel) and model.delay == 0.5
    assert make_model(model.name).name == model.name


def test_model_object_is_returned_unchanged() -> None:
    model = ScriptedModel([])
    assert make_model(model) is model


def test_invalid_model_error_has_a_command(subtests: pytest.Subtests) -> None:
    cases = [
        ("simulatd:disciplined", "There is no model 'simulatd:disciplined'. Did you mean simulated:disciplined"),
        ("anthropik:claude", "Did you mean anthropic:"),
        ("gpt-5", "There is no model 'gpt-5'. Add the provider: openai:gpt-5"),
        ("GPT-5-mini", "There is no model 'GPT-5-mini'. Add the provider: openai:GPT-5-mini"),
        ("o3", "There is no model 'o3'. Add the provider: openai:o3"),
        ("claude-sonnet-5", "There is no model 'claude-sonnet-5'. Add the provider: anthropic:claude-sonnet-5"),
        ("gpt-oss:20b", "There is no model 'gpt-oss:20b'. Add the provider: ollama:gpt-oss:20b"),
        ("llama3.2", "There is no model 'llama3.2'. Add the provider: ollama:llama3.2"),
        ("gpt-5?effort=high", "There is no model 'gpt-5'. Add the provider: openai:gpt-5"),
        ("gpt", "There is no model 'gpt'."),
        ("acp:opencode:local/m", "'acp:opencode:local/m' is an external agent, not a model. Name it with --acp NAME"),
        ("", "There is no model ''."),
        ("simulated", "'simulated' is not a complete model name. Write simulated:NAME"),
        ("anthropic:", "'anthropic:' is not a complete model name. Write anthropic:NAME"),
        ("simulated:discplined", "simulated has no persona 'discplined'. Did you mean disciplined?"),
        (
            "simulated:disciplined?speed=1",
            "simulated:disciplined has no option 'speed'. Its options and their defaults are simulated:disciplined?seed=0",
        ),
        ("simulated:disciplined?delay=x", "delay='x' of simulated:disciplined must be a number"),
        ("simulated:disciplined?delay=99", "must be between 0 and 10 seconds"),
        ("scripted:x", "scripted:x cannot be created from its name. Create the model in Python"),
    ]
    for name, said in cases:
        with subtests.test(name):
            with pytest.raises(UnknownModel) as caught:
                make_model(name)
            assert said in str(caught.value)


def test_unknown_name_without_a_near_match_explains_the_syntax(snapshot: Snapshot) -> None:
    with pytest.raises(UnknownModel, check=snapshot.worded):
        make_model("zzzzzz")


def test_missing_key_error_is_one_line_with_variable_and_command(subtests: pytest.Subtests) -> None:
    for provider, variable in WITH_KEY.items():
        with subtests.test(provider=provider, variable=variable):
            with pytest.raises(MissingKey) as caught:
                make_model(f"{provider}:some-model")
            typed = "openai" if provider == "openai-responses" else provider  # whose variable it is
            told = f"No key for {provider}: {variable} is not set. Enter it: %agent key {typed}"
            assert error_in_notebook(caught.value) == told
            with pytest.raises(MissingKey) as caught:
                make_model(f"{provider}:some-model?key=MY_KEY")
            told = f"No key for {provider}: MY_KEY is not set. Enter it: %agent key MY_KEY"
            assert error_in_notebook(caught.value) == told


def test_blank_key_counts_as_missing(subtests: pytest.Subtests) -> None:
    for blank in ["", "  "]:
        with subtests.test(blank), pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setenv("ANTHROPIC_API_KEY", blank)
            with pytest.raises(MissingKey):
                make_model("anthropic:some-model")


def test_key_is_required_to_make_a_model_not_an_agent(subtests: pytest.Subtests) -> None:
    for provider in WITH_KEY:
        with subtests.test(provider):
            agent = Agent(f"{provider}:some-model")
            with pytest.raises(MissingKey):
                agent.run_sync("hello")


def test_local_server_needs_no_key(subtests: pytest.Subtests) -> None:
    for provider, host in product([*WITH_KEY, "ollama", "compatible"], ["localhost:8000", "127.0.0.1", "[::1]:8000"]):
        with subtests.test(provider=provider, host=host):
            model = make_model(f"{provider}:some-model?url=http://{host}/v1")
            assert isinstance(model, RemoteModel) and model._endpoint.key is None


def test_remote_server_requires_a_key(subtests: pytest.Subtests) -> None:
    for provider in WITH_KEY:
        with subtests.test(provider):
            with pytest.raises(MissingKey):
                make_model(f"{provider}:some-model?url=https://localhost.example.org/v1")


def test_compatible_servers_need_a_key_only_if_one_is_named(snapshot: Snapshot) -> None:
    assert isinstance(make_model("compatible:m?url=https://models.example.org/v1"), RemoteModel)
    with pytest.raises(MissingKey, check=snapshot.worded):
        make_model("compatible:m?url=https://models.example.org/v1&key=MY_KEY")


def test_compatible_server_requires_a_url(monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot) -> None:
    with pytest.raises(SettingsError, check=snapshot.worded):
        make_model("compatible:m")
    monkeypatch.setenv("AGENTNB_COMPATIBLE_URL", "http://localhost:8000/v1/")
    assert endpoint("compatible:m").url == "http://localhost:8000/v1"


def endpoint(name: str) -> Endpoint:
    model = make_model(name)
    assert isinstance(model, RemoteModel)
    return model._endpoint


def test_model_location_comes_from_name_then_environment_then_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    assert endpoint("ollama:m").url == "http://127.0.0.1:11434/v1"
    monkeypatch.setenv("OLLAMA_HOST", "10.0.0.7")
    assert endpoint("ollama:m").url == "http://10.0.0.7:11434/v1"
    assert endpoint("ollama:m?url=http://localhost:9/v1").url == "http://localhost:9/v1"
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    assert endpoint("anthropic:m").url is None


def test_key_named_in_the_model_name_takes_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("MY_KEY", "sk-of-my-own-0123456789")
    for provider in ("openai", "openai-responses"):
        usual, own = endpoint(f"{provider}:m").key, endpoint(f"{provider}:m?key=MY_KEY").key
        assert usual is not None and usual.reveal() == SECRET
        assert own is not None and own.reveal() == "sk-of-my-own-0123456789"


NAMES = [
    "ollama:qwen3:8b",
    "ollama:hf.co/bartowski/Some-Model-GGUF:Q4_K_M",
    "compatible:openai/gpt-oss-120b:free",
    "compatible:org/model#revision",
    "compatible:a model with spaces",
    "compatible:größer",
]


def test_name_may_contain_colons_slashes_and_more(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name), pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setenv("AGENTNB_COMPATIBLE_URL", "http://localhost:8000/v1")
            model = make_model(name)
            assert isinstance(model, RemoteModel)
            assert (model.name, model.model) == (name, name.partition(":")[2])
            with_option = make_model(f"{name}?max_tokens=5")
            assert (
                isinstance(with_option, RemoteModel)
                and with_option.options.max_tokens == 5
                and with_option.model == model.model
            )


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def test_output_schema_is_sent(subtests: pytest.Subtests) -> None:
    for provider in REMOTE:
        with subtests.test(provider):
            with LoopbackServer(['{"a": 1}']) as server:
                model = make_model(server.model(provider, max_tokens=50), output_schema=SCHEMA)
                assert isinstance(model, RemoteModel) and model.options.max_tokens == 50
                assert "output_schema" not in model.name
                assert asyncio.run(reply_of(model)).message.text == '{"a": 1}'
            assert '"required": ["a"]' in json.dumps(server.requests[0].body)


def test_output_schema_requires_the_name_of_a_language_model(snapshot: Snapshot) -> None:
    with pytest.raises(SettingsError, match="simulated: models do not support output_schema"):
        make_model(DEFAULT, output_schema=SCHEMA)
    with pytest.raises(SettingsError, check=snapshot.worded):
        make_model(ScriptedModel([]), output_schema=SCHEMA)
    with pytest.raises(UnknownModel):
        make_model("nobody:m", output_schema=SCHEMA)


def test_recorded_model_requires_an_existing_file_or_folder(tmp_path: Path, snapshot: Snapshot) -> None:
    with pytest.raises(SettingsError, check=snapshot.worded):
        make_model("recorded:some-run")
    assert make_model(f"recorded:{tmp_path}").name == f"recorded:{tmp_path}"


def test_invalid_model_error_contains_no_possible_key() -> None:
    for name in (f"anthropik:x?key={SECRET}", f"anthropic:?key={SECRET}", f"?{SECRET}", SECRET):
        with pytest.raises(UnknownModel) as caught:
            make_model(name)
        assert "never" not in repr(caught.value)
    with pytest.raises(UnknownModel, match=r"There is no model 'anthropik:claude-5-20260101'"):
        make_model("anthropik:claude-5-20260101")


def test_key_never_appears_in_messages_or_logs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in WITH_KEY.values():
        monkeypatch.setenv(variable, SECRET)
    said: list[str] = []
    for name in [*(f"{provider}:x" for provider in PROVIDERS), *PROVIDERS, "anthropi:x"]:
        try:
            model = make_model(name)
            said += [model.name, repr(model), repr(vars(model))]
        except AgentnbError as error:
            said += [str(error), repr(error), repr(error.args), repr(error.__cause__), repr(error.__context__)]
    store = Store(tmp_path)
    with LoopbackServer(["Here.", Status(401), Status(500, headers={"x-should-retry": "false"})], key=SECRET) as server:
        agent = Agent(server.model("anthropic"))
        run = agent.run_sync("hello", store=store)
        for _ in range(2):
            with pytest.raises(ModelError) as caught:
                agent.run_sync("hello", store=store)
            said += [str(caught.value), repr(caught.value), repr(caught.value.__cause__)]
    said += [run.text, repr(run), *(store.path(run_id).read_text(encoding="utf-8") for run_id in store.ids())]
    assert run.text == "Here." and not any(SECRET in words for words in said) and len(said) > len(PROVIDERS)


def test_value_that_is_neither_name_nor_model_is_refused(subtests: pytest.Subtests) -> None:
    class Nameless:
        async def stream(self, request: Any) -> Any:
            yield

    no_method = "the method async def stream(self, request)"
    both = f'It lacks the attribute name = "own:NAME" and {no_method}; help(agentnb.models) has an example.'
    cases: list[tuple[Any, str]] = [
        (None, both),
        (5, both),
        (object(), both),
        (["simulated:disciplined"], both),
        (b"simulated:disciplined", both),
        (Nameless(), 'It lacks the attribute name = "own:NAME"; help(agentnb.models) has an example.'),
        (ScriptedModel, "It is a class, not an instance. Create one: ScriptedModel()."),
    ]
    for value, lacks in cases:
        with subtests.test(value=value):
            with pytest.raises(UnknownModel) as caught:
                check_model(value)
            assert str(caught.value).endswith(f"is not a model. {lacks} Or use a name such as simulated:disciplined")


def test_object_with_name_and_stream_is_a_model() -> None:
    class Mine:
        name = "mine:own"

        def stream(self, request: Any) -> Any: ...

    model = Mine()
    check_model(model)
    assert make_model(model) is model


def test_agent_refuses_an_unknown_model_at_creation() -> None:
    with pytest.raises(UnknownModel, match="Did you mean simulated:disciplined"):
        Agent("simulatd:disciplined")


def test_offered_names_create_models() -> None:
    assert names() == [f"simulated:{persona}" for persona in PERSONAS] and names()[0] == DEFAULT
    assert [make_model(name).name for name in names()] == names()


def test_thinking_budget_is_refused_where_it_would_not_be_sent() -> None:
    check_model("anthropic:m?thinking=2000")
    with pytest.raises(SettingsError, match="effort=high"):
        check_model("openai-responses:m?thinking=2000")


def test_name_can_be_checked_and_agent_made_without_a_key() -> None:
    check_model("anthropic:m")
    agent = Agent("openai:m")
    assert agent.first_request("Hi").messages[0].text.startswith("Hi")
    with pytest.raises(MissingKey):
        agent.run_sync("Hi")
    with pytest.raises(MissingKey):
        agent.start("Hi")


def test_url_from_the_environment_must_not_contain_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://me:secret-word@localhost:1/v1")
    with pytest.raises(SettingsError) as caught:
        make_model("openai:m")
    assert "password" in str(caught.value) and "secret-word" not in str(caught.value)


def test_named_key_must_exist_for_local_servers_too() -> None:
    with pytest.raises(MissingKey, match="MY_KEY"):
        make_model("compatible:m?url=http://localhost:1/v1&key=MY_KEY")


def test_url_may_include_the_api_path() -> None:
    compatible = Options(url="http://h:1/v1/chat/completions/")
    assert endpoint_of(REMOTE["compatible"], compatible, by_person=True).url == "http://h:1/v1"
    assert (
        endpoint_of(REMOTE["openai-responses"], Options(url="http://localhost:1/v1/responses")).url == "http://localhost:1/v1"
    )


def test_malformed_name_error_explains_the_syntax(subtests: pytest.Subtests) -> None:
    cases = [
        ("claude-something", "Add the provider: anthropic:claude-something"),
        ("http://localhost:8000/v1", "compatible:NAME?url=http://localhost:8000/v1"),
        ('"anthropic:x', "Remove the quotation marks"),
        ("anthropc:x", "Did you mean anthropic:"),
        ("anthropic:x&effort=low", "Options follow a ? and are separated by &"),
        ("anthropic:x?effort=low?max_tokens=3", "Options follow a ? and are separated by &"),
        ("ollama:a\nb", "is a single line"),
        ("compatible?url=http://localhost:1/v1", "compatible:NAME?url=http://localhost:1/v1"),
    ]
    for name, hint in cases:
        with subtests.test(name):
            with pytest.raises(UnknownModel) as caught:
                check_model(name)
            assert hint in str(caught.value)


def test_key_like_text_is_not_a_model_name() -> None:
    for name in (
        "sk-ant-api03-secretsecret",
        "anthropic:sk-ant-api03-secretsecret",
        "openai:ghp_0123456789abcdef",
        "sk_0123456789abcdef01234567",
    ):
        with pytest.raises(UnknownModel, match="That looks like an API key") as caught:
            check_model(name)
        assert "secret" not in str(caught.value) and "0123" not in str(caught.value)


def test_wire_form_equals_the_sent_request_and_needs_no_key() -> None:
    request = Agent("openai:m?effort=low").first_request("Hi")
    assert json.loads(wire_form("openai:m?effort=low", request) or b"")["reasoning_effort"] == "low"
    assert wire_form("simulated:chatty", request) is None and wire_form(ScriptedModel([]), request) is None


def test_invalid_schema_is_refused_at_once() -> None:
    with pytest.raises(SettingsError, match="model_json_schema"):
        make_model("ollama:m", output_schema=int)  # type: ignore[arg-type]
