"""Settings from the environment; `test_keys.py` tests keys."""

from __future__ import annotations

import os

import pytest

from agentnb import settings
from agentnb.errors import SettingsError

SECRET = "sk-test-0123456789abcdef"


def test_default_model_is_none_without_its_variable() -> None:
    assert settings.default_model() is None


def test_blank_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    for value in ["", "   "]:
        with subtests.test(repr(value)):
            monkeypatch.setenv("AGENTNB_MODEL", value)
            assert settings.default_model() is None


def test_variable_names_the_default_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTNB_MODEL", " simulated:disciplined ")
    assert settings.default_model() == "simulated:disciplined"


def test_providers_have_no_keys_without_their_variables() -> None:
    assert settings.providers_with_key() == []


def test_provider_has_a_key_when_its_variable_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    assert settings.providers_with_key() == ["openai", "openai-responses"]
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-y")
    assert settings.providers_with_key() == ["anthropic", "openai", "openai-responses"]


def test_provider_has_a_key_when_one_is_stored() -> None:
    settings.keep_key("openai", SECRET)
    assert settings.providers_with_key() == ["openai", "openai-responses"]


def test_blank_key_counts_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", " ")
    assert not settings.has_key("anthropic")
    assert settings.find_key("anthropic") is None


def test_unknown_provider_has_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOBODY_API_KEY", "x")
    assert not settings.has_key("nobody")


def test_key_never_appears_in_answers_about_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    answers = [
        settings.has_key("anthropic"),
        settings.providers_with_key(),
        settings.key_names(),
        settings.find_key("anthropic"),
    ]
    assert SECRET not in repr(answers)


def test_variables_that_are_read_are_documented() -> None:
    for name in ("AGENTNB_MODEL", *settings.KEY_VARIABLES.values(), *settings.URL_VARIABLES.values()):
        assert f"``{name}``" in (settings.__doc__ or "")


# Addresses


def test_replaced_os_environ_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTNB_MODEL", "simulated:disciplined")
    monkeypatch.setattr(os, "environ", {"OPENAI_API_KEY": SECRET})
    assert settings.default_model() is None
    assert settings.find_key("openai") is not None and settings.secrets() == (SECRET,)


def test_variable_unset_concurrently_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "_VARIABLES", {settings._encoded("AGENTNB_MODEL")})
    assert settings.default_model() is None


def test_providers_have_no_address_without_their_variables(subtests: pytest.Subtests) -> None:
    for provider in [*settings.URL_VARIABLES, "simulated"]:
        with subtests.test(provider):
            assert settings.base_url(provider) is None


def test_provider_variable_sets_its_address(monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    for provider, variable in [
        ("anthropic", "ANTHROPIC_BASE_URL"),
        ("openai", "OPENAI_BASE_URL"),
        ("openai-responses", "OPENAI_BASE_URL"),
        ("compatible", "AGENTNB_COMPATIBLE_URL"),
    ]:
        with subtests.test(provider):
            monkeypatch.setenv(variable, " https://gateway.example/path/v1/ ")
            assert settings.base_url(provider) == "https://gateway.example/path/v1"
            monkeypatch.setenv(variable, "  ")
            assert settings.base_url(provider) is None


def test_invalid_address_is_refused(monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    for said in ["gateway.example/v1", "localhost:8000", "ftp://x/v1", "http://", "http://x:port/v1", "http://[x"]:
        with subtests.test(said):
            monkeypatch.setenv("AGENTNB_COMPATIBLE_URL", said)
            with pytest.raises(SettingsError, match=r"AGENTNB_COMPATIBLE_URL is not a URL\. Set it to a URL"):
                settings.base_url("compatible")


def test_ollama_host_becomes_a_url(monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    for said, url in [
        ("127.0.0.1:11434", "http://127.0.0.1:11434/v1"),
        ("gpu-box", "http://gpu-box:11434/v1"),
        ("gpu-box:9000", "http://gpu-box:9000/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:9000", "http://127.0.0.1:9000/v1"),
        (":9000", "http://127.0.0.1:9000/v1"),
        ("[::]:9000", "http://[::1]:9000/v1"),
        ("http://gpu-box:9000/", "http://gpu-box:9000/v1"),
        ("http://gpu-box", "http://gpu-box:80/v1"),
        ("https://models.example/ollama/v1", "https://models.example:443/ollama/v1"),
    ]:
        with subtests.test(said):
            monkeypatch.setenv("OLLAMA_HOST", said)
            assert settings.base_url("ollama") == url


def test_invalid_ollama_host_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "gpu-box:many")
    with pytest.raises(SettingsError, match="OLLAMA_HOST is not a URL"):
        settings.base_url("ollama")
