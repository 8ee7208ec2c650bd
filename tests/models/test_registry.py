"""From a name to a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentnb import Agent, Store
from agentnb.errors import AgentnbError, MissingKey, NotAvailable, UnknownModel
from agentnb.models import ScriptedModel, SimulatedModel
from agentnb.models.personas import PERSONAS
from agentnb.models.registry import DEFAULT, PROVIDERS, check_model, make_model, names

SECRET = "sk-never-to-be-seen-0123456789"
WITH_KEY = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY", "openai-responses": "OPENAI_API_KEY"}


def test_the_default_needs_no_key() -> None:
    model = make_model(DEFAULT)
    assert isinstance(model, SimulatedModel) and model.name == DEFAULT


def test_options_stand_behind_a_question_mark() -> None:
    model = make_model("simulated:disciplined?delay=0.5")
    assert isinstance(model, SimulatedModel) and model.delay == 0.5
    assert make_model(model.name).name == model.name


def test_a_model_object_is_handed_back_as_it_is() -> None:
    model = ScriptedModel([])
    assert make_model(model) is model


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("simulatd:disciplined", "There is no model 'simulatd:disciplined'. Did you mean simulated:disciplined"),
        ("anthropik:claude", "Did you mean anthropic:"),
        ("gpt", "There is no model 'gpt'."),
        ("", "There is no model ''."),
        ("simulated", "'simulated' names no model. Write simulated:NAME"),
        ("anthropic:", "'anthropic:' names no model. Write anthropic:NAME"),
        ("simulated:discplined", "simulated: has no persona 'discplined'. Did you mean disciplined?"),
        ("simulated:disciplined?speed=1", "simulated:disciplined has no option 'speed'. It has seed, heed, delay"),
        ("simulated:disciplined?delay=x", "delay='x' of simulated:disciplined is no number"),
        ("simulated:disciplined?delay=99", "is not between 0 and 10 seconds"),
        ("scripted:x", "scripted:x is not made from its name. Make the object in Python"),
    ],
)
def test_what_is_no_model_is_said_with_what_to_type(name: str, said: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        make_model(name)
    assert said in str(caught.value)


def test_an_unknown_name_without_a_near_match_lists_what_there_is() -> None:
    with pytest.raises(UnknownModel, match=r"There is simulated:disciplined, .*anthropic:.*Write provider:NAME"):
        make_model("zzzzzz")


@pytest.mark.parametrize(("provider", "variable"), WITH_KEY.items())
def test_a_missing_key_is_named_with_the_variable_and_what_works_without(provider: str, variable: str) -> None:
    with pytest.raises(MissingKey) as caught:
        make_model(f"{provider}:some-model")
    assert f"{variable} is not set" in str(caught.value) and f"-m {DEFAULT}" in str(caught.value)


@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_key_is_a_missing_one(monkeypatch: pytest.MonkeyPatch, blank: str) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", blank)
    with pytest.raises(MissingKey):
        make_model("anthropic:some-model")


@pytest.mark.parametrize("provider", [*WITH_KEY, "ollama", "compatible", "recorded"])
def test_a_provider_of_a_later_version_is_refused_clearly(monkeypatch: pytest.MonkeyPatch, provider: str) -> None:
    for variable in WITH_KEY.values():
        monkeypatch.setenv(variable, SECRET)
    with pytest.raises(NotAvailable, match=f"{provider}: models are not in this version of agentnb yet"):
        make_model(f"{provider}:some-model")


def test_a_key_is_in_no_message_and_in_no_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in WITH_KEY.values():
        monkeypatch.setenv(variable, SECRET)
    said: list[str] = []
    for name in [*(f"{provider}:x" for provider in PROVIDERS), *PROVIDERS, "anthropi:x"]:
        try:
            said.append(make_model(name).name)
        except AgentnbError as error:
            said += [str(error), repr(error), repr(error.args), repr(error.__cause__), repr(error.__context__)]
    store = Store(tmp_path)
    run = Agent(DEFAULT).run_sync("hello", store=store)
    said += [run.text, repr(run), store.path(run.id).read_text(encoding="utf-8")]
    assert not any(SECRET in words for words in said) and len(said) > len(PROVIDERS)


@pytest.mark.parametrize("value", [None, 5, ScriptedModel, object(), ["simulated:disciplined"], b"simulated:disciplined"])
def test_what_is_neither_a_name_nor_a_model_is_refused(value: Any) -> None:
    with pytest.raises(UnknownModel, match=r"is no model\. A model is a name such as simulated:disciplined or an object"):
        check_model(value)


def test_any_object_with_a_name_and_a_stream_is_a_model() -> None:
    class Mine:
        name = "mine:own"

        def stream(self, request: Any) -> Any: ...

    model = Mine()
    check_model(model)
    assert make_model(model) is model


def test_an_agent_refuses_an_unknown_model_when_it_is_made() -> None:
    with pytest.raises(UnknownModel, match="Did you mean simulated:disciplined"):
        Agent("simulatd:disciplined")


def test_names_that_can_be_completed_make_models() -> None:
    assert names() == [f"simulated:{persona}" for persona in PERSONAS] and names()[0] == DEFAULT
    assert [make_model(name).name for name in names()] == names()
