"""What is read from the environment."""

from __future__ import annotations

import pytest

from agentnb import settings


def test_without_the_variable_there_is_no_default_model() -> None:
    assert settings.default_model() is None


@pytest.mark.parametrize("value", ["", "   "])
def test_a_blank_variable_is_none(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("AGENTNB_MODEL", value)
    assert settings.default_model() is None


def test_the_variable_names_the_default_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTNB_MODEL", " simulated:disciplined ")
    assert settings.default_model() == "simulated:disciplined"


def test_without_variables_there_are_no_keys() -> None:
    assert settings.providers_with_key() == []


def test_a_provider_has_a_key_when_its_variable_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    assert settings.providers_with_key() == ["openai", "openai-responses"]
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-y")
    assert settings.providers_with_key() == ["anthropic", "openai", "openai-responses"]


def test_a_blank_key_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", " ")
    assert not settings.has_key("anthropic")


def test_a_provider_nobody_knows_has_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOBODY_API_KEY", "x")
    assert not settings.has_key("nobody")


def test_a_key_is_never_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    answers = [settings.has_key("anthropic"), settings.providers_with_key(), settings.default_model(), settings.KEY_VARIABLES]
    assert "sk-secret" not in repr(answers)


def test_each_variable_that_is_read_is_documented() -> None:
    for name in ("AGENTNB_MODEL", *settings.KEY_VARIABLES.values()):
        assert f"``{name}``" in (settings.__doc__ or "")
