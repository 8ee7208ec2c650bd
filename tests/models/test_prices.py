"""The cost of a call: as in the price table, or unknown."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from genai_prices import Usage as TableUsage
from genai_prices import calc_price
from genai_prices.data_snapshot import get_snapshot
from hypothesis import given
from hypothesis import strategies as st

from agentnb.core.messages import Message, Text
from agentnb.core.request import Request
from agentnb.core.usage import Usage
from agentnb.errors import SettingsError
from agentnb.models import prices
from agentnb.models.capabilities import used_until_cut
from agentnb.models.destinations.destination import FileModelName
from agentnb.models.model import Reply
from agentnb.models.prices import Price, add_cost, load
from agentnb.models.registry import make_model

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
USUAL = Usage(input=30_000, output=700, cache_read=20_000, cache_write=1_500, reasoning=300)
SIZES = (0, 1, 99_999, 100_000, 100_001, 199_999, 200_000, 200_001, 272_000, 272_001, 1_000_000)


def table_cost(usage: Usage, model: str, at: datetime = NOW, **where: Any) -> float:
    """Return the cost computed by the price library itself."""
    given = {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write,
        "output_reasoning_tokens": usage.reasoning,
    }
    counts = {kind: count for kind, count in given.items() if count is not None}
    return float(calc_price(TableUsage(**counts), model, genai_request_timestamp=at, **where).total_price)


def cost(usage: Usage, provider: str, model: str, at: datetime = NOW, **how: Any) -> float | None:
    return add_cost(usage, provider, model, at, None, **how).cost


@pytest.mark.req("R2.14")
def test_cost_matches_the_table_for_any_input_size(subtests: pytest.Subtests) -> None:
    cases = [
        ("anthropic", "claude-sonnet-4-5"),
        ("anthropic", "claude-sonnet-4-5-20250929"),
        ("anthropic", "claude-haiku-5-5"),
        ("anthropic", "CLAUDE-OPUS-5-5"),
        ("openai", "o3"),
        ("openai", "gpt-4o-mini"),
        ("openai", "gpt-6.1-terra"),
    ]
    for (provider, model), size in product(cases, SIZES):
        with subtests.test(provider=provider, model=model, size=size):
            usages = [
                Usage(size, 500),
                Usage(size, 0, cache_read=size // 2),
                Usage(size, 7, cache_read=size // 3, cache_write=size // 4),
                Usage(size, 500, reasoning=400),
            ]
            for usage in usages:
                assert cost(usage, provider, model) == table_cost(usage, model, provider_id=provider)


def test_cost_matches_the_table_for_every_token_priced_model(subtests: pytest.Subtests) -> None:
    for provider in ["anthropic", "openai"]:
        with subtests.test(provider):
            compared = 0
            for model in next(one for one in get_snapshot().providers if one.id == provider).models:
                for usage in (USUAL, Usage(400_000, 90, cache_read=1)):
                    if (found := cost(usage, provider, model.id)) is not None:
                        assert found == table_cost(usage, model.id, provider_id=provider), model.id
                        compared += 1
            assert compared > 20


def test_openai_prices_are_equal_for_both_apis() -> None:
    assert cost(USUAL, "openai-responses", "o3") == cost(USUAL, "openai", "o3") is not None


def test_price_depends_on_the_date_of_the_call() -> None:
    change = datetime(2025, 6, 10, tzinfo=UTC)
    days = [change - timedelta(seconds=1), change]
    before, after = [cost(USUAL, "openai", "o3", day) for day in days]
    assert [before, after] == [table_cost(USUAL, "o3", day, provider_id="openai") for day in days]
    assert before is not None and after is not None and before > after


def test_models_of_other_providers_are_priced_by_server_url(subtests: pytest.Subtests) -> None:
    cases = [
        ("https://api.groq.com/openai/v1", "openai/gpt-oss-120b"),
        ("https://openrouter.ai/api/v1", "anthropic/claude-sonnet-4.5"),
        ("https://api.mistral.ai/v1", "mistral-large-latest"),
        ("https://api.perplexity.ai", "sonar-pro"),
        ("https://api.perplexity.ai", "sonar-deep-research"),
    ]
    for url, model in cases:
        with subtests.test(url=url, model=model):
            assert cost(USUAL, "compatible", model, url=url) == table_cost(USUAL, model, provider_api_url=url) > 0


def test_provider_price_applies_only_at_the_providers_url(subtests: pytest.Subtests) -> None:
    cases = [
        ("openai", "gpt-4o", "https://api.openai.com/v1", "https://openrouter.ai/api/v1"),
        ("anthropic", "claude-sonnet-4-5", "https://api.anthropic.com", "https://api.deepseek.com/anthropic"),
    ]
    for provider, model, own, other in cases:
        with subtests.test(provider):
            assert (
                cost(USUAL, provider, model, url=own)
                == cost(USUAL, provider, model)
                == table_cost(USUAL, model, provider_id=provider)
            )
            assert cost(USUAL, provider, model, url=other) is None


def test_thinking_has_its_own_price_where_listed() -> None:
    usages = [Usage(10, 1_000), Usage(10, 1_000, reasoning=1_000)]
    said, thought = (cost(usage, "compatible", "sonar-deep-research", url="https://api.perplexity.ai") for usage in usages)
    assert said is not None and thought is not None and said > thought


def test_hour_long_cache_writes_have_their_own_price() -> None:
    usage = Usage(1_000, 10, cache_write=800)
    counts = {"input_tokens": 1_000, "output_tokens": 10, "cache_write_tokens": 800, "cache_write_1h_tokens": 800}
    expected = calc_price(TableUsage(**counts), "claude-opus-5-5", provider_id="anthropic", genai_request_timestamp=NOW)
    assert cost(usage, "anthropic", "claude-opus-5-5", long_cache=True) == float(expected.total_price)
    assert cost(usage, "anthropic", "claude-opus-5-5") == table_cost(usage, "claude-opus-5-5", provider_id="anthropic")


UNKNOWN_PRICES = [
    ("anthropic", "never-heard-of", None),
    ("openai", "claude-sonnet-4-5", None),
    ("nobody", "gpt-4o", None),
    ("ollama", "gpt-oss:20b", None),
    ("ollama", "gpt-oss:20b", "http://localhost:11434/v1"),
    ("compatible", "gpt-4o", "http://127.0.0.1:8000/v1"),
    ("compatible", "gpt-4o", "https://models.example.org/v1"),
    ("compatible", "gpt-4o", None),
    ("simulated", "disciplined", None),
    ("openai", "gpt-live-1", None),
    ("openai", "gpt-4o", "http://127.0.0.1:8000/v1"),
    ("openai-responses", "gpt-4o", "http://localhost:8000/v1"),
    ("anthropic", "claude-sonnet-4-5", "http://[::1]:8000"),
    ("anthropic", "claude-sonnet-4-5", "https://models.example.org"),
]


@pytest.mark.req("R2.14")
def test_cost_of_an_unpriced_model_is_unknown(subtests: pytest.Subtests) -> None:
    for provider, model, url in UNKNOWN_PRICES:
        with subtests.test(provider=provider, model=model, url=url):
            assert cost(USUAL, provider, model, url=url) is None


@pytest.mark.req("R2.14")
def test_cost_is_unknown_for_unknown_or_impossible_token_counts(subtests: pytest.Subtests) -> None:
    cases = [
        Usage(),
        Usage(input=10),
        Usage(output=10),
        Usage(input=10, output=5, cache_read=11),
        Usage(input=10, output=5, cache_read=6, cache_write=6),
        Usage(input=10, output=-1),
    ]
    for usage, price in product(cases, [None, Price.parse("3/15")]):
        with subtests.test(usage=usage, price=str(price)):
            assert add_cost(usage, "anthropic", "claude-opus-5-5", NOW, price).cost is None


def test_only_the_cost_is_set_or_replaced() -> None:
    before = Usage(30, 7, 20, 1, 3, cost=99.0, estimated=True)
    after = add_cost(before, "anthropic", "never-heard-of", NOW, None)
    assert after == Usage(30, 7, 20, 1, 3, cost=None, estimated=True)
    assert add_cost(before, "x", "y", NOW, Price.parse("1/1")).cost == pytest.approx(37e-6)


@pytest.mark.req("R2.14")
def test_price_given_by_the_person_overrides_the_table(subtests: pytest.Subtests) -> None:
    cases = [
        ("3/15", Usage(1_000_000, 0), 3.0),
        ("3/15", Usage(0, 1_000_000), 15.0),
        ("3/15", Usage(1_000_000, 0, cache_read=400_000, cache_write=100_000), 3.0),
        ("3/15/0.3/3.75", Usage(1_000_000, 0, cache_read=400_000, cache_write=100_000), 1.5 + 0.12 + 0.375),
        (" 3 / 15 ", Usage(1_000_000, 1_000_000), 18.0),
        ("0.25/0", Usage(4, 1_000), 1e-6),
        ("3/15", Usage(0, 1_000_000, reasoning=900_000), 15.0),
    ]
    for text, usage, dollars in cases:
        with subtests.test(text=text, usage=usage, dollars=dollars):
            assert add_cost(usage, "anthropic", "claude-opus-5-5", NOW, Price.parse(text)).cost == pytest.approx(dollars)


def test_free_model_costs_nothing_for_any_usage(subtests: pytest.Subtests) -> None:
    for usage, text in product([Usage(), Usage(input=3), Usage(3, 4, 9)], ["0", "0/0", "0.0", "0/0/0/0"]):
        with subtests.test(usage=usage, text=text):
            assert add_cost(usage, "ollama", "qwen", NOW, Price.parse(text)).cost == 0.0


NO_PRICES = [
    "",
    "3",
    "3/",
    "/15",
    "3/15/1",
    "1/2/3/4/5",
    "a/b",
    "-1/2",
    "nan/1",
    "inf/1",
    "1e3/1",
    "1_0/1",
    "$3/$15",
    "3,5/15",
    "\uff11/2",
]


def test_error_for_an_invalid_price_shows_the_syntax(subtests: pytest.Subtests) -> None:
    for text in NO_PRICES:
        with subtests.test(text):
            with pytest.raises(SettingsError) as caught:
                Price.parse(text)
            assert caught.value.what == f"price={text} is not a price"
            assert "input/output as 3/15" in caught.value.hint and "0 for free" in caught.value.hint


numbers = st.decimals(0, 999_999_999, places=4)


@given(st.tuples(numbers, numbers) | st.tuples(numbers, numbers, numbers, numbers))
def test_price_survives_formatting_and_parsing(given: tuple[Decimal, ...]) -> None:
    price = Price(*given)
    again = Price.parse(str(price))
    assert again == price or (again.is_free and price.is_free)
    assert "E" not in str(price)


def test_prices_compare_and_hash_by_value() -> None:
    assert Price.parse("3/15") == Price.parse("3.0/15.0") and hash(Price.parse("3/15")) == hash(Price.parse("3/15"))
    assert [str(Price.parse(text)) for text in ("3/15", "0", "3/15/0.3/3.75")] == ["3/15", "0", "3/15/0.3/3.75"]


def python(code: str) -> str:
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def printed() -> list[str]:
    """Lines printed by a process without sockets that loads the prices and looks some up."""
    code = (
        "import sys, threading\n"
        "from datetime import UTC, datetime\n"
        "def refuse(event, args):\n"
        "    assert not event.startswith('socket.'), event\n"
        "sys.addaudithook(refuse)\n"
        "from agentnb.core.usage import Usage\n"
        "from agentnb.models import prices\n"
        "at = datetime.now(UTC)\n"
        "prices.add_cost(Usage(1, 2), 'anthropic', 'claude-opus-5-5', at, prices.Price.parse('3/15'))\n"
        "prices.add_cost(Usage(1, 2), 'ollama', 'qwen', at, None)\n"
        "print('genai_prices' in sys.modules)\n"
        "prices.load()\n"
        "print('genai_prices' in sys.modules, 'genai_prices.data' in sys.modules)\n"
        "print(prices.add_cost(Usage(1, 2), 'anthropic', 'claude-opus-5-5', at, None).cost is not None)\n"
        "print(prices.add_cost(Usage(1, 2), 'anthropic', 'never-heard-of', at, None).cost, threading.active_count())\n"
    )
    return python(code).splitlines()


def test_price_table_is_loaded_only_when_needed(printed: list[str]) -> None:
    assert printed[:2] == ["False", "True True"]


def test_prices_are_never_fetched(printed: list[str]) -> None:
    assert printed[2:] == ["True", "None 1"]


def test_many_threads_can_load_and_query_prices_at_once() -> None:
    prices._model.cache_clear()

    def ask(number: int) -> float | None:
        load()
        return cost(USUAL, *[("anthropic", "claude-haiku-5-5"), ("openai", "o3")][number % 2])

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(ask, range(64)))
    assert set(found[::2]) == {cost(USUAL, "anthropic", "claude-haiku-5-5")}
    assert set(found[1::2]) == {cost(USUAL, "openai", "o3")}


def test_price_of_a_model_is_looked_up_once() -> None:
    prices._model.cache_clear()
    for _ in range(5):
        cost(USUAL, "anthropic", "claude-opus-5-5")
        cost(USUAL, "anthropic", "never-heard-of")
    assert prices._model.cache_info().misses == 2


def test_price_in_a_file_never_lowers_known_costs(monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test-0123456789")
    load()
    request = Request("", (Message("user", (Text("long " * 40_000),)),), ())
    heard = Message("assistant", (Text("An answer"),))

    def cost_of(name: str) -> float | None:
        model: Any = make_model(name)
        return used_until_cut(model, request, heard).cost

    known = cost_of("openai:gpt-4o-mini")
    assert known
    for name, expected in {
        "openai:gpt-4o-mini?price=0": known,
        "openai:gpt-4o-mini?price=0.01/0.01": known,
        "openai:gpt-4o-mini?price=900/900": cost_of("openai:gpt-4o-mini?price=900/900"),
        "openai:not-in-the-table?price=3/15": cost_of("openai:not-in-the-table?price=3/15"),
    }.items():
        with subtests.test(name):
            assert cost_of(FileModelName(name)) == expected != 0
    assert cost_of("openai:gpt-4o-mini?price=0") == 0, "the person's own word counts"
    answered = Reply(heard, USUAL, metadata={"model": "gpt-4o-mini"})
    unlisted: Any = make_model(FileModelName("openai:not-in-the-table?price=0"))
    assert unlisted._add_cost(answered, USUAL).cost == cost(USUAL, "openai", "gpt-4o-mini")
