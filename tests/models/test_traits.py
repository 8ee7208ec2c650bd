"""What is known of a model besides its replies: whether it can be asked for a summary, its window, its price."""

from __future__ import annotations

from typing import Any

import pytest

from agentnb.models import ScriptedModel, SimulatedModel, make_model, prices
from agentnb.models.traits import Traits, traits_of
from agentnb.testing import LoopbackServer


class Own:
    name = "mine:own"

    def __init__(self, found: Any) -> None:
        self._found = found

    def traits(self) -> Any:
        return self._found


@pytest.mark.req("R2.36")
def test_a_model_object_may_say_it_of_itself() -> None:
    said = Traits(language_model=False, context_window=5_000, has_price=True)
    assert traits_of(Own(said)) is said


@pytest.mark.req("R2.36")
@pytest.mark.parametrize("model", [object(), Own(None), Own({"context_window": 5}), type("Odd", (), {"traits": 7})()])
def test_of_one_that_does_not_nothing_is_known_but_that_it_can_be_asked(model: Any) -> None:
    assert traits_of(model) == Traits(language_model=True, context_window=None, has_price=False)


def test_scripts_and_simulations_write_no_summaries_and_cost_what_they_say() -> None:
    for model in (ScriptedModel([]), SimulatedModel()):
        assert traits_of(model) == Traits(language_model=False, has_price=True)


@pytest.mark.req("R2.36")
@pytest.mark.parametrize("name", ["anthropic:claude-sonnet-4-5", "openai:gpt-4o", "openai-responses:gpt-4o"])
def test_the_window_and_the_price_of_a_providers_model_are_those_of_the_table(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(variable, "x" * 40)
    prices.load()
    found = traits_of(make_model(name))
    assert found.language_model and found.has_price
    assert found.context_window is not None and 100_000 <= found.context_window <= 2_000_000


@pytest.mark.req("R2.36")
def test_of_a_server_of_ones_own_neither_is_known_unless_the_price_is_given() -> None:
    prices.load()
    with LoopbackServer([]) as server:
        assert traits_of(make_model(server.model("openai"))) == Traits()
        assert traits_of(make_model(server.model("compatible", price="3/15"))) == Traits(has_price=True)
        assert traits_of(make_model(server.model("anthropic", price="0"))).has_price


def test_the_table_is_not_read_just_to_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x" * 40)
    monkeypatch.setattr(prices, "loaded", lambda: False)
    monkeypatch.setattr(prices, "load", lambda: pytest.fail("it was read"))
    monkeypatch.setattr(prices, "known_of", lambda *_: pytest.fail("it was read"))
    assert traits_of(make_model("anthropic:claude-sonnet-4-5")) == Traits()
    assert traits_of(make_model("anthropic:claude-sonnet-4-5?price=3/15")) == Traits(has_price=True)
