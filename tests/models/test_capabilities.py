"""Model capabilities: summaries, context window, price."""

from __future__ import annotations

import math
from typing import Any

import pytest
from msgspec.structs import replace

from agentnb.core.messages import Message, Text, user
from agentnb.core.request import Request
from agentnb.core.usage import UNKNOWN, Usage
from agentnb.models import ScriptedModel, SimulatedModel, make_model, prices
from agentnb.models.capabilities import Capabilities, capabilities_of, used_until_cut
from agentnb.models.estimate import about
from agentnb.testing import LoopbackServer


class Own:
    name = "mine:own"

    def __init__(self, found: Any) -> None:
        self._found = found

    def capabilities(self) -> Any:
        return self._found


@pytest.mark.req("R2.36")
def test_model_object_may_report_its_capabilities() -> None:
    said = Capabilities(language_model=False, context_window=5_000, has_price=True)
    assert capabilities_of(Own(said)) is said


@pytest.mark.req("R2.36")
def test_model_object_without_capabilities_counts_as_a_language_model(subtests: pytest.Subtests) -> None:
    cases = [object(), Own(None), Own({"context_window": 5}), type("Odd", (), {"traits": 7})()]
    for model in cases:
        with subtests.test(model=model):
            assert capabilities_of(model) == Capabilities(language_model=True, context_window=None, has_price=False)


def test_scripted_and_simulated_models_report_prices_but_cannot_summarize() -> None:
    for model in (ScriptedModel([]), SimulatedModel()):
        assert capabilities_of(model) == Capabilities(language_model=False, has_price=True)


@pytest.mark.req("R2.36")
def test_provider_models_get_window_and_price_from_the_table(subtests: pytest.Subtests) -> None:
    cases = ["anthropic:claude-sonnet-4-5", "openai:gpt-4o", "openai-responses:gpt-4o"]
    for name in cases:
        with subtests.test(name), pytest.MonkeyPatch.context() as monkeypatch:
            for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
                monkeypatch.setenv(variable, "x" * 40)
            prices.load()
            found = capabilities_of(make_model(name))
            assert found.language_model and found.has_price
            assert found.context_window is not None and 100_000 <= found.context_window <= 2_000_000


@pytest.mark.req("R2.36")
def test_custom_server_has_unknown_window_and_only_a_stated_price() -> None:
    prices.load()
    with LoopbackServer([]) as server:
        assert capabilities_of(make_model(server.model("openai"))) == Capabilities()
        assert capabilities_of(make_model(server.model("compatible", price="3/15"))) == Capabilities(has_price=True)
        assert capabilities_of(make_model(server.model("anthropic", price="0"))).has_price


def test_capabilities_do_not_load_the_price_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x" * 40)
    monkeypatch.setattr(prices, "is_loaded", lambda: False)
    monkeypatch.setattr(prices, "load", lambda: pytest.fail("it was read"))
    monkeypatch.setattr(prices, "look_up", lambda *_: pytest.fail("it was read"))
    assert capabilities_of(make_model("anthropic:claude-sonnet-4-5")) == Capabilities()
    assert capabilities_of(make_model("anthropic:claude-sonnet-4-5?price=3/15")) == Capabilities(has_price=True)


# Usage of an interrupted reply

REQUEST = Request("You count.", (user("Count to a thousand, please."),))
HEARD = Message("assistant", (Text("One, two, three, " * 40),))


class Reckons:
    name = "mine:reckons"

    def __init__(self, found: Any) -> None:
        self._found = found

    def used_until_cut(self, request: Request, heard: Message) -> Any:
        if isinstance(self._found, Exception):
            raise self._found
        assert (request, heard) == (REQUEST, HEARD)
        return self._found


@pytest.mark.req("KX.9")
def test_model_object_may_report_usage_of_an_interrupted_reply() -> None:
    said = Usage(10, 20, cost=0.5, estimated=True)
    assert used_until_cut(Reckons(said), REQUEST, HEARD) == said
    assert used_until_cut(Reckons(replace(said, estimated=False)), REQUEST, HEARD) == said


def test_invalid_token_or_dollar_numbers_are_unknown(subtests: pytest.Subtests) -> None:
    cases = [
        (Usage(2**63, 2), Usage(None, 2, estimated=True)),
        (Usage(1.5, 2), Usage(None, 2, estimated=True)),  # type: ignore[arg-type]
        (Usage("a", -2, True), UNKNOWN),  # type: ignore[arg-type]
        (Usage(1, 2, cost=math.nan), Usage(1, 2, estimated=True)),
        (Usage(1, 2, cost=math.inf), Usage(1, 2, estimated=True)),
        (Usage(1, 2, cost=-3.0), Usage(1, 2, estimated=True)),
        (Usage(1, 2, cost="much"), Usage(1, 2, estimated=True)),  # type: ignore[arg-type]
        (Usage(1, 2, cost=3), Usage(1, 2, cost=3.0, estimated=True)),
    ]
    for odd, kept in cases:
        with subtests.test(odd=odd):
            assert used_until_cut(Reckons(odd), REQUEST, HEARD) == kept


def test_missing_usage_report_is_unknown_without_failure(subtests: pytest.Subtests) -> None:
    cases = [object(), Reckons(None), Reckons(3), Reckons(ValueError("no idea")), ScriptedModel([])]
    for model in cases:
        with subtests.test(model=model):
            assert used_until_cut(model, REQUEST, HEARD) == UNKNOWN


def test_interrupted_provider_model_estimates_usage_and_cost_with_a_price() -> None:
    guess = about(REQUEST, HEARD)
    assert guess.input and guess.output and guess.estimated and guess.cost is None
    with LoopbackServer([]) as server:
        found = used_until_cut(make_model(server.model("anthropic", price="1000/2000")), REQUEST, HEARD)
        assert found.cost == pytest.approx((guess.input * 1_000 + guess.output * 2_000) / 1e6)
        assert (found.input, found.output, found.estimated) == (guess.input, guess.output, True)
        assert used_until_cut(make_model(server.model("openai")), REQUEST, HEARD) == guess


def test_interrupted_simulated_model_counts_its_tokens() -> None:
    assert used_until_cut(make_model("simulated:disciplined?price=1000/2000"), REQUEST, HEARD).cost
