"""The cost of a call, by tokens of each kind: from the person's price, or from the genai-prices table.

The table comes with that package and is never fetched. Reading it takes half a second: run `load` in a thread.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from threading import Event, Lock
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from agentnb.core.usage import Usage
from agentnb.errors import SettingsError
from agentnb.settings import SERVERS

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice, TieredPrices

IN_TABLE = {name: row["prices"] for name, row in SERVERS.items() if "prices" in row}
"""The table's names for our providers. Other servers are identified by their URL, or not at all."""
NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
MILLION = Decimal(1_000_000)
MAX_MODELS = 256
"""Maximum number of models with cached prices."""

_loading = Lock()
_loaded = Event()


class Price(msgspec.Struct, frozen=True):
    """US dollars per million tokens of each kind. A kind without its own price is priced as ordinary input or output."""

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    """Price of input read from a cache."""
    cache_write: Decimal | None = None
    """Price of input written to a cache."""
    reasoning: Decimal | None = None
    """Price of output spent on thinking."""
    call: Decimal = Decimal(0)
    """Price per call in US dollars, independent of length."""

    @classmethod
    def parse(cls, text: str) -> Price:
        """Parse a price: ``3/15`` is input/output, ``3/15/0.3/3.75`` adds cache reads and writes, ``0`` is free."""
        parts = [part.strip() for part in text.split("/")]
        numbers = [Decimal(part) for part in parts if NUMBER.fullmatch(part)]
        if numbers == [0]:
            numbers *= 2
        if len(numbers) not in (2, 4) or len(numbers) < len(parts):
            raise SettingsError(
                f"price={text} is not a price",
                "Write US dollars per million tokens: input/output as 3/15, with cache reads and writes as "
                "3/15/0.3/3.75, or 0 for free",
            )
        return cls(*numbers)

    @property
    def is_free(self) -> bool:
        """True if all prices are 0."""
        return not any((self.input, self.output, self.cache_read, self.cache_write, self.reasoning, self.call))

    def cost(self, usage: Usage) -> float | None:
        """Return the cost of a call with this usage, or None if the usage is unknown or impossible."""
        if self.is_free:
            return 0.0
        if usage.input is None or usage.output is None:
            return None
        read, written = usage.cache_read or 0, usage.cache_write or 0
        thought = (usage.reasoning or 0) if self.reasoning is not None else 0
        plain, answered = usage.input - read - written, usage.output - thought
        if min(read, written, thought, plain, answered) < 0:
            return None
        tokens = (
            plain * self.input
            + answered * self.output
            + read * (self.input if self.cache_read is None else self.cache_read)
            + written * (self.input if self.cache_write is None else self.cache_write)
            + thought * (self.reasoning or 0)
        )
        return float(tokens / MILLION + self.call)

    def __str__(self) -> str:
        """Return the price in the form that `parse` reads."""
        if self.is_free:
            return "0"
        numbers = [self.input, self.output]
        if self.cache_read is not None or self.cache_write is not None:
            numbers += [self.input if price is None else price for price in (self.cache_read, self.cache_write)]
        return "/".join(f"{number:f}" for number in numbers)


def add_cost(
    usage: Usage,
    provider: str,
    model: str,
    at: datetime,
    price: Price | None,
    *,
    url: str | None = None,
    long_cache: bool = False,
    is_own_price: bool = True,
) -> Usage:
    """Return the usage with its cost in US dollars: from ``price``, or else from the table's price for the model at this time.

    ``is_own_price``: the person stated ``price``. A price from a file counts only if the table's price is not higher, so that
    third-party files cannot evade a budget. The cost is None if the table has no such provider or model, or if the tokens are
    unknown. ``url``: the server's URL, if set explicitly: it then decides which provider's prices apply, and a server that is
    not in the table (such as a local one) has no price. ``long_cache``: cache writes are kept for an hour.
    """
    rates = [] if price is None else [price]
    if price is None or not is_own_price:
        entry = _model(IN_TABLE.get(provider) if url is None else None, model, url)
        in_table = entry.price(at, usage.input or 0, long_cache) if entry is not None else None
        rates += [] if in_table is None else [in_table]
    costs = [rate.cost(usage) for rate in rates]
    known_costs = [cost for cost in costs if cost is not None]
    return msgspec.structs.replace(usage, cost=max(known_costs) if costs and len(known_costs) == len(costs) else None)


def look_up(provider: str, model: str, url: str | None = None) -> tuple[int | None, bool]:
    """Return the model's context window in tokens, and whether its price is known. Loads the table if necessary."""
    entry = _model(IN_TABLE.get(provider) if url is None else None, model, url)
    return (None, False) if entry is None else (entry.context_window, entry.price(datetime.now(UTC), 0, False) is not None)


def load() -> None:
    """Load the price table, which takes half a second the first time. Safe to call from any thread."""
    with _loading:
        from genai_prices import data_snapshot

        data_snapshot.get_snapshot()
        _loaded.set()


def is_loaded() -> bool:
    """Return whether the table has been loaded."""
    return _loaded.is_set()


class _Step(NamedTuple):
    """A price for calls with more than ``above`` tokens of input."""

    above: int
    price: Price | None


class _Model:
    """A model of the table, with its prices read once: the table's own lookup takes a tenth of a millisecond per call."""

    def __init__(self, model: ModelInfo) -> None:
        self._model = model
        self._steps: dict[tuple[int, bool], tuple[_Step, ...]] = {}

    @property
    def context_window(self) -> int | None:
        """Maximum tokens of input."""
        return self._model.context_window

    def price(self, at: datetime, tokens: int, long_cache: bool) -> Price | None:
        """Return the price, at this time, of a call with this number of input tokens."""
        table = self._model.get_prices(at)
        key = (id(table), long_cache)  # a safe key: the model keeps its price tables alive
        if key not in self._steps:
            self._steps[key] = _steps(table, long_cache)
        return next(step.price for step in self._steps[key] if tokens > step.above)


@lru_cache(maxsize=MAX_MODELS)
def _model(provider: str | None, model: str, url: str | None) -> _Model | None:
    if provider is None and url is None:
        return None
    load()
    from genai_prices import data_snapshot

    try:
        _, info = data_snapshot.get_snapshot().find_provider_model(model, None, provider, None if provider else url)
    except LookupError:
        return None
    return _Model(info)


def _steps(table: ModelPrice, long_cache: bool) -> tuple[_Step, ...]:
    """Return the price for each size of input, largest first; the last one applies to any size."""
    from genai_prices.types import TieredPrices

    tiers = {tier.start for price in table.__dict__.values() if isinstance(price, TieredPrices) for tier in price.tiers}
    return tuple([_Step(above, _price(table, above, long_cache)) for above in sorted(tiers | {-1}, reverse=True)])


def _price(table: ModelPrice, above: int, long_cache: bool) -> Price | None:
    """Return the price of calls with more than ``above`` tokens of input, or None for a model not charged by tokens."""

    def of(key: str) -> Decimal | None:
        price: Decimal | TieredPrices | None = getattr(table, f"{key}_mtok")
        if price is None or isinstance(price, Decimal):
            return price
        reached = [tier.price for tier in price.tiers if tier.start <= above]
        return reached[-1] if reached else price.base

    sent, answered = of("input"), of("output")
    if sent is None or answered is None:
        return None
    written = (of("cache_write_1h") if long_cache else None) or of("cache_write")
    thousand_calls = table.requests_kcount
    call = thousand_calls / 1_000 if isinstance(thousand_calls, Decimal) else Decimal(0)
    return Price(sent, answered, of("cache_read"), written, of("output_reasoning"), call)
