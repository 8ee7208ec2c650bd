"""``AGENT_MAX_TOKENS``: the default reply limit for model names without one."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from agentnb.core.messages import user
from agentnb.core.request import Request
from agentnb.models import RemoteModel, make_model
from agentnb.models.registry import REMOTE, check_model, wire_form

HERE = "url=http://localhost:8000/v1"
FIELD = {
    "anthropic": "max_tokens",
    "openai": "max_completion_tokens",
    "openai-responses": "max_output_tokens",
    "ollama": "max_tokens",
    "compatible": "max_tokens",
    **dict.fromkeys(("mistral", "deepseek", "openrouter", "together", "gemini", "github"), "max_tokens"),
    **dict.fromkeys(("vllm", "lmstudio", "llamacpp", "mlx"), "max_tokens"),
    **dict.fromkeys(("groq", "azure"), "max_completion_tokens"),
}
"""The name of the limit on each wire."""

HELLO = Request("", (user("Hello."),))


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENT_MAX_TOKENS", raising=False)


def remote_model(name: str) -> RemoteModel:
    model = make_model(f"{name}{'&' if '?' in name else '?'}{HERE}")
    assert isinstance(model, RemoteModel)
    return model


def sent(name: str) -> dict[str, Any]:
    """The body of a request to this model."""
    return json.loads(remote_model(name).body(HELLO))


def test_every_provider_has_a_max_tokens_field() -> None:
    assert set(FIELD) == set(REMOTE)


@pytest.mark.req("R2.15")
def test_variable_applies_if_the_name_sets_no_limit(subtests: pytest.Subtests) -> None:
    for provider in REMOTE:
        with subtests.test(provider), pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setenv("AGENT_MAX_TOKENS", "4096")
            assert sent(f"{provider}:m-1")[FIELD[provider]] == 4096
            assert sent(f"{provider}:m-1?effort=low")[FIELD[provider]] == 4096
            assert sent(f"{provider}:m-1?max_tokens=9000")[FIELD[provider]] == 9000
            assert sent(f"{provider}:m-1?max_tokens=5")[FIELD[provider]] == 5


@pytest.mark.req("R2.15", "R2.16")
def test_missing_or_invalid_default_leaves_the_model_limit(subtests: pytest.Subtests) -> None:
    for provider, said in product(REMOTE, [None, "", "many", "0", "-1", "2000000"]):
        with subtests.test(provider=provider, said=said), pytest.MonkeyPatch.context() as monkeypatch:
            if said is not None:
                monkeypatch.setenv("AGENT_MAX_TOKENS", said)
            usual = {"anthropic": {"max_tokens": 32_000}}.get(provider, {})
            assert {key: value for key, value in sent(f"{provider}:m-1").items() if key in FIELD.values()} == usual
            assert remote_model(f"{provider}:m-1").options.max_tokens is None


@pytest.mark.req("R2.15")
def test_thinking_tokens_are_added_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_MAX_TOKENS", "4096")
    body = sent("anthropic:m-1?thinking=8000")
    assert body["max_tokens"] == 12_096 > body["thinking"]["budget_tokens"] == 8000
    assert sent("anthropic:m-1?thinking=adaptive")["max_tokens"] == 4096
    assert sent("anthropic:m-1?thinking=8000&max_tokens=9000")["max_tokens"] == 9000


def test_created_model_keeps_its_limit_in_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_MAX_TOKENS", "4096")
    model = remote_model("openai:m-1")
    monkeypatch.setenv("AGENT_MAX_TOKENS", "50")
    assert model.name.startswith("openai:m-1?max_tokens=4096&")
    assert json.loads(model.body(HELLO))["max_completion_tokens"] == 4096
    assert make_model(model.name).name == model.name


def test_wire_form_includes_the_default_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_MAX_TOKENS", "4096")
    shown = wire_form("anthropic:m-1", HELLO)
    assert shown is not None and json.loads(shown)["max_tokens"] == 4096


def test_models_without_a_provider_ignore_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_MAX_TOKENS", "4096")
    check_model("simulated:disciplined")
    assert make_model("simulated:disciplined").name == "simulated:disciplined"
