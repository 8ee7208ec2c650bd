"""``%agent models``: the kinds of models, and a provider's list."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from asserted_sentences import Snapshot
from loopback_thread import Handler, LoopbackThread

from agentnb.errors import AgentnbError, BrokenReply, KeyRefused, MissingKey, ProviderTrouble, SettingsError, UnknownModel
from agentnb.models.registry import REMOTE, make_model
from agentnb.models.simulated.personas import PERSONAS
from agentnb.notebook.commands.models_command import model_lines, provider_models
from agentnb.testing import LoopbackServer

SECRET = "sk-never-to-be-seen-0123456789"


@contextmanager
def listing(status: int, body: Any) -> Iterator[str]:
    """Return the URL of a server that answers each GET with this."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    class Listing(Handler):
        def do_GET(self) -> None:
            self.reply(status, content, Content_Type="application/json")

    with LoopbackThread(Listing) as server:
        yield f"http://127.0.0.1:{server.port}/v1"


def test_model_list_without_a_provider_has_one_line_per_kind(snapshot: Snapshot) -> None:
    lines = model_lines()
    assert lines[: len(PERSONAS)] == [f"simulated:{persona}" for persona in PERSONAS]
    assert lines[len(PERSONAS) : -1] == snapshot
    assert lines[-1] == snapshot


def test_model_list_shows_which_keys_exist_but_not_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("AGENTNB_COMPATIBLE_URL", "http://localhost:8000/v1")
    lines = "\n".join(model_lines())
    assert "openai:NAME             has a key" in lines and "openai-responses:NAME   has a key" in lines
    assert "anthropic:NAME          no key" in lines and "compatible:NAME         at http://localhost:8000/v1" in lines
    assert SECRET not in lines


@pytest.mark.parametrize("provider", REMOTE)
def test_provider_lists_names_that_can_be_typed(provider: str) -> None:
    with LoopbackServer() as server:
        query = server.model(provider).partition("?")[2]
        (name,) = provider_models(f"{provider}?{query}")
        assert name == server.model(provider) and make_model(name).name == name
        assert provider_models(f"{provider}:?{query}") == [name]


def test_provider_is_queried_with_the_named_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with LoopbackServer(key=SECRET) as server:
        query = server.model("openai").partition("?")[2]
        with pytest.raises(KeyRefused, match="the key was refused"):
            provider_models(f"openai?{query}")
        monkeypatch.setenv("MY_KEY", SECRET)
        assert provider_models(f"openai?{query}&key=MY_KEY") == [f"openai:loopback?{query}&key=MY_KEY"]


def test_model_names_with_unusual_characters_are_listed_readably() -> None:
    with listing(200, {"data": [{"id": "qwen3:8b"}, {"id": "hf.co/a/b#c"}, {"id": "\x1b[31mred"}]}) as url:
        names = provider_models(f"compatible?url={url}")
    assert names[:2] == [f"compatible:qwen3:8b?url={url}", f"compatible:hf.co/a/b#c?url={url}"]
    assert all(name.isprintable() for name in names)


def test_server_without_models_is_reported() -> None:
    empty: list[Any] = [{"object": "list", "data": []}, []]
    for body in empty:
        with listing(200, body) as url:
            assert provider_models(f"compatible?url={url}") == ["compatible: no models listed"]


def test_malformed_model_list_gives_a_readable_error(subtests: pytest.Subtests) -> None:
    for body in [{}, [7], {"data": None}, {"data": [{}]}, {"data": ["x"]}, b"<html>", "text", None]:
        with subtests.test(str(body)):
            with (
                listing(200, body) as url,
                pytest.raises(
                    BrokenReply, match=r"compatible: (the response is not|the server at .* sent .* instead of a list of models)"
                ),
            ):
                provider_models(f"compatible?url={url}")


def test_failed_model_listing_gives_a_reason(subtests: pytest.Subtests) -> None:
    for status, expected in [(401, "requires a key"), (404, "there is no list of models"), (500, "the request failed")]:
        with subtests.test(str(status)):
            with (
                listing(status, {"error": {"message": "No."}}) as url,
                pytest.raises(AgentnbError, match=rf"{expected}.*\({status}\)"),
            ):
                provider_models(f"compatible?url={url}")


def test_stopped_server_is_reported() -> None:
    with LoopbackServer() as server:
        query = server.model("ollama").partition("?")[2]
    with pytest.raises(ProviderTrouble, match="ollama: no server responds at"):
        provider_models(f"ollama?{query}")


def test_provider_that_cannot_be_queried_names_those_that_can(subtests: pytest.Subtests) -> None:
    for line, kind, expected in [
        ("anthropc", UnknownModel, "'anthropc' is not a provider that lists its models. Did you mean anthropic?"),
        ("simulated", UnknownModel, "'simulated' is not a provider"),
        ("anthropic:claude", UnknownModel, "'anthropic:claude' is not a provider"),
        ("anthropic", MissingKey, "No key for anthropic: ANTHROPIC_API_KEY is not set. Enter it: os.environ"),
        ("compatible", SettingsError, "compatible: the server URL is missing"),
        ("ollama?speed=1", UnknownModel, "ollama has no option 'speed'"),
        ("ollama?timeout=soon", UnknownModel, "timeout=soon of ollama must be a number"),
    ]:
        with subtests.test(line or "nothing"):
            with pytest.raises(kind) as caught:
                provider_models(line)
            assert expected in str(caught.value)


def test_models_command_lists_models_in_a_cell(kernel: Any) -> None:
    kernel.run("from agentnb.testing import LoopbackServer\nserver = LoopbackServer()\nserver.__enter__()")
    query = kernel.value("server.model('ollama').partition('?')[2]").strip("'")
    assert kernel.run(f"%agent models ollama?{query}").printed == f"ollama:loopback?{query}\n"
    assert "simulated:disciplined\n" in kernel.run("%agent models").printed
    failed = kernel.run("%agent models nobody")
    assert "'nobody' is not a provider" in failed.error + failed.printed
    kernel.run("server.close()")
