"""Calling a function as a tool: checked arguments, problems, and an outcome."""

from __future__ import annotations

import asyncio
import functools
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest
from asserted_sentences import Snapshot

from agentnb.core.messages import Text
from agentnb.errors import InvalidTool
from agentnb.runtime.workers.worker_calls import call_in_thread
from agentnb.tools.function import FunctionTool, as_tool, tool
from agentnb.tools.tool import ToolContext, ToolOutcome, failure

CONTEXT = ToolContext("r-1", "toolu_1", Path("data"), call_in_thread)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


def call(function: Callable[..., Any], /, **arguments: Any) -> ToolOutcome:
    return asyncio.run(FunctionTool(function, name="f").run(arguments, CONTEXT))


def refused(function: Callable[..., Any], /, **arguments: Any) -> str:
    outcome = call(function, **arguments)
    assert (outcome.ok, outcome.error_code) == (False, "invalid_arguments")
    assert outcome.as_result("toolu_1", "f").is_error
    return outcome.text


def show(*values: Any) -> str:
    return " ".join(map(repr, values))


@pytest.mark.req("R2.3", "KX.6")
def test_call_returns_an_outcome_with_value_and_text() -> None:
    def add(a: int, b: int = 2) -> int:
        return a + b

    outcome = call(add, a=1)
    assert (outcome.ok, outcome.value, outcome.text, outcome.error_code) == (True, 3, "3", None)
    result = outcome.as_result("toolu_1", "add")
    assert (result.call_id, result.name, result.text, result.is_error) == ("toolu_1", "add", "3", False)


@pytest.mark.req("R2.3")
def test_arguments_are_converted_to_their_hinted_types() -> None:
    def f(day: date, colour: Colour, point: Point, points: dict[str, Point], half: float) -> str:
        return show(day, colour, point, points, type(half))

    point = {"x": 1}
    outcome = call(f, day="2026-01-02", colour="red", point=point, points={"a": point}, half=1)
    assert outcome.text == show(date(2026, 1, 2), Colour.RED, Point(1), {"a": Point(1)}, float)


@pytest.mark.req("R2.3")
def test_integer_may_be_written_with_a_decimal_point() -> None:
    def f(n: int, many: list[int], point: Point, by_name: dict[str, int], either: int | float, half: float, it: Any) -> str:
        return show(n, many, point, by_name, either, half, it)

    outcome = call(f, n=1.0, many=[1.0, 2], point={"x": 3.0}, by_name={"a": 4.0}, either=1.0, half=1.0, it=1.0)
    assert outcome.text == show(1, [1, 2], Point(3), {"a": 4}, 1.0, 1.0, 1.0)

    def g(n: int | None = None, size: Literal[1, 2] = 2, points: list[Point] | None = None) -> str:
        return show(n, size, points)

    assert call(g, n=1.0, size=1.0, points=[{"x": 1.0}]).text == show(1, 1, [Point(1)])
    assert "n: 1.5" in refused(g, n=1.5) and "n: true" in refused(g, n=True)


@pytest.mark.req("R2.3")
def test_defaults_of_the_function_are_used_unchanged() -> None:
    sentinel = object()

    def f(x: Any = sentinel, *, colour: Colour = Colour.RED, day: date = date(2026, 1, 2)) -> bool:
        return x is sentinel and colour is Colour.RED and day == date(2026, 1, 2)

    assert call(f).value is True


@pytest.mark.req("R2.3")
def test_none_is_accepted_only_where_the_hint_allows_it() -> None:
    def f(x: int | None = 3) -> str:
        return show(x)

    def g(x: int = 3) -> str:
        return show(x)

    assert (call(f, x=None).text, call(f).text) == ("None", "3")
    assert "x" in refused(g, x=None)


@pytest.mark.req("R2.3")
def test_positional_only_parameters_each_get_their_own_value() -> None:
    def f(a: int, b: int = 2, c: int = 3, /, d: int = 4) -> list[int]:
        return [a, b, c, d]

    assert call(f, a=1).value == [1, 2, 3, 4]
    assert call(f, d=9, b=7, a=1).value == [1, 7, 3, 9]
    assert call(f, a=1, c=8).value == [1, 2, 8, 4]


@pytest.mark.req("R2.3")
def test_context_is_passed_to_functions_that_ask_for_it() -> None:
    def by_name(x: int, context: ToolContext) -> str:
        return f"{x} {context.call_id} {context.work_dir}"

    def by_place(context: ToolContext, x: int, /) -> str:
        return f"{x} {context.call_id}"

    assert call(by_name, x=1).text == "1 toolu_1 data"
    assert call(by_place, x=1).text == "1 toolu_1"
    assert "context" in refused(by_name, x=1, context="mine")


@pytest.mark.req("R2.3")
def test_methods_partials_and_objects_are_called() -> None:
    class Account:
        def __init__(self, money: int) -> None:
            self.money = money

        def book(self, amount: int) -> int:
            self.money += amount
            return self.money

        def __call__(self, times: int) -> int:
            return self.money * times

    account = Account(1)
    assert call(account.book, amount=2).value == account.money == 3
    assert call(account, times=2).value == 6
    assert call(functools.partial(account.book, 4)).value == 7

    def power(base: int, exponent: int) -> int:
        return base**exponent

    square = functools.partial(power, exponent=2)
    assert (call(square, base=3).value, call(square, base=3, exponent=3).value) == (9, 27)


async def double(x: int) -> int:
    """Double it."""
    await asyncio.sleep(0)
    return 2 * x


class Doubler:
    async def __call__(self, x: int) -> int:
        return await double(x)


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    """A plain decorator as people write them."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


@pytest.mark.req("R2.3")
def test_async_results_are_awaited(subtests: pytest.Subtests) -> None:
    cases = {
        "function": double,
        "partial": functools.partial(double),
        "object": Doubler(),
        "method": Doubler().__call__,
        "behind a plain decorator": logged(double),
    }
    for name, function in cases.items():
        with subtests.test(name):
            assert call(function, x=4).text == "8"


@pytest.mark.req("R2.3", "R2.10")
def test_every_argument_problem_is_listed_with_similar_names() -> None:
    def f(table: str, limit: int, order: Literal["up", "down"] = "up") -> None: ...

    words = refused(f, tabel="iris", limit="ten", order="sideways")
    assert "There is no argument 'tabel'. Did you mean table?" in words
    assert '"table" is missing' in words
    assert 'limit: "ten" is not of type "integer"' in words
    assert 'order: "sideways" is not one of "up", "down"' in words
    assert "was not run" in words


@pytest.mark.req("R2.3")
def test_nested_problem_has_its_path() -> None:
    def f(points: list[Point]) -> None: ...

    assert 'points.1.x: "no" is not of type "integer"' in refused(f, points=[{"x": 1}, {"x": "no"}])


def sent(arguments: Any) -> str:
    """Return the error for a model that sends this instead of an object."""

    def add(a: int, b: int) -> None: ...

    outcome = asyncio.run(FunctionTool(add).run(arguments, CONTEXT))
    assert (outcome.ok, outcome.error_code) == (False, "invalid_arguments")
    return outcome.text


@pytest.mark.req("R2.10")
def test_invalid_json_is_reported_with_position_text_and_example(snapshot: Snapshot) -> None:
    assert sent('{"a": 1, "b": 2 and so on}').splitlines() == snapshot
    assert "NaN is not valid JSON" in sent('{"a": NaN, "b": 2}')
    assert "Expecting value at character 0" in sent("")


@pytest.mark.req("R2.10")
def test_long_invalid_json_is_quoted_around_the_error() -> None:
    text = '{"a": 1, "b": "' + "x" * 5000 + '", here ' + "y" * 5000
    message = sent(text)
    assert "at character 5018" in message
    assert "… xxx" in message and 'x", here yyy' in message and "yyy …" in message
    assert len(message) < 500


@pytest.mark.req("R2.10")
def test_hostile_argument_text_gets_a_short_error(subtests: pytest.Subtests) -> None:
    for text in ["[" * 100_000, "1" * 100_000, '{"a":' * 50_000]:
        with subtests.test(text):
            message = sent(text)
            assert len(message) < 500
            assert "Python" not in message and "sys." not in message


@pytest.mark.req("R2.10")
def test_arguments_that_are_not_an_object_are_reported(subtests: pytest.Subtests) -> None:
    cases = [
        ([1, 2], "a list"),
        (7, "a number"),
        (0.5, "a number"),
        (None, "null"),
        (True, "true"),
        ('{"a": 1, "b": 2}', "a string"),
        ('"a"', "a string"),
    ]
    for arguments, kind in cases:
        with subtests.test(arguments=arguments):
            text = sent(arguments)
            assert f"- they must be an object, not {kind}\n" in text
            assert (
                f"- received: {arguments if isinstance(arguments, str) else json.dumps(arguments, separators=(',', ':'))}\n"
                in text
            )


@pytest.mark.req("R2.10")
def test_tool_without_arguments_expects_an_empty_object() -> None:
    def now() -> None: ...

    outcome = asyncio.run(FunctionTool(now).run([], CONTEXT))
    assert "send {}, it has no arguments" in outcome.text


@pytest.mark.req("R2.3")
def test_inconvertible_arguments_are_reported(subtests: pytest.Subtests) -> None:
    cases = [(date, "tomorrow"), (date, "2026-02-30"), (Colour, "green"), (int, 1.5)]
    for hint, value in cases:
        with subtests.test(hint=hint, value=value):

            def f(x):  # type: ignore[no-untyped-def]
                return x

            f.__annotations__ = {"x": hint}
            assert "x" in refused(f, x=value).partition("\n")[2]


@pytest.mark.req("R2.3")
def test_function_with_refused_arguments_does_not_run() -> None:
    ran: list[int] = []

    def f(x: int) -> None:
        ran.append(x)

    refused(f, x="1")
    refused(f, x=True)
    refused(f)
    assert ran == []


@pytest.mark.req("R2.3", "R2.10")
def test_type_error_of_the_function_is_not_an_argument_problem() -> None:
    def f(x: int) -> None:
        raise TypeError("f() missing 1 required positional argument: 'x'")

    with pytest.raises(TypeError):
        call(f, x=1)


@pytest.mark.req("KX.6")
def test_outcome_returned_by_the_function_is_used_unchanged() -> None:
    own = failure("no_rows", "The table is empty.")

    def f() -> ToolOutcome:
        return own

    assert call(f) is own
    result = own.as_result("toolu_1", "f")
    assert (result.is_error, result.error_code, result.text) == (True, "no_rows", "The table is empty.")
    assert ToolOutcome(True, (Text("a"), Text("b"))).text == "a\nb"


@pytest.mark.req("R2.3")
def test_function_marked_as_a_tool_is_still_callable() -> None:
    @tool
    def bare(x: int) -> int:
        """Bare."""
        return x + 1

    @tool(name="other", effects=["read"], timeout=5)
    def dressed(x: int) -> int:
        return x + 2

    @tool
    async def later(x: int) -> int:
        return x + 3

    assert (bare(1), dressed(1), asyncio.run(later(1))) == (2, 3, 4)
    assert (bare.__name__, bare.__doc__, dressed.__name__) == ("bare", "Bare.", "dressed")
    assert as_tool(bare).spec.name == "bare"
    assert (as_tool(dressed).spec.name, as_tool(dressed).timeout, as_tool(dressed).parallel_safe) == ("other", 5, True)


@pytest.mark.req("R2.3")
def test_decorator_above_the_tool_decorator_is_kept() -> None:
    @logged
    @tool(name="inner")
    def f() -> str:
        return "f"

    assert as_tool(f).function is f


class Bank:
    @tool(name="book_money", timeout=5)
    def book(self, amount: int) -> int:
        """Book."""
        return amount

    def close(self) -> str:
        return "closed"


@pytest.mark.req("R2.3")
def test_method_marked_as_a_tool_keeps_its_settings_when_bound() -> None:
    bank = Bank()
    bank_tool = as_tool(bank.book)
    assert list(bank_tool.spec.input_schema["properties"]) == ["amount"]
    assert (bank_tool.spec.name, bank_tool.timeout) == ("book_money", 5)


@pytest.mark.req("R2.3")
def test_bound_method_accepts_tool_settings_or_is_refused() -> None:
    try:
        marked = tool(name="close_it")(Bank().close)
    except InvalidTool:
        return
    assert as_tool(marked).spec.name == "close_it"


@pytest.mark.req("R2.3")
def test_invalid_settings_are_refused_when_marking(subtests: pytest.Subtests) -> None:
    cases = [
        ({"effects": ["fly"]}, "unknown effect: fly.*read, write"),
        ({"timeout": 0}, "timeout=0"),
        ({"timeout": -1}, "timeout=-1"),
        ({"timeout": float("nan")}, "timeout=nan"),
        ({"name": "two words"}, "'two words' is not a valid tool name"),
        ({"read_only": True}, r'@tool has no setting read_only. @tool accepts name, effects, .*@tool\(effects=\["read"\]\)'),
        ({"effect": ["read"]}, "Did you mean effects"),
    ]
    for settings, words in cases:
        with subtests.test(settings=settings):
            with pytest.raises(InvalidTool, match=words):
                tool(**settings)(double)


@pytest.mark.req("K2.5")
def test_only_read_only_tools_are_parallel_safe_by_default(subtests: pytest.Subtests) -> None:
    cases = [
        ({}, False),
        ({"effects": ["read"]}, True),
        ({"effects": ["read", "network"]}, False),
        ({"effects": []}, False),
        ({"effects": ["read"], "parallel_safe": False}, False),
        ({"effects": ["write"], "parallel_safe": True}, True),
    ]
    for settings, safe in cases:
        with subtests.test(settings=settings):
            assert FunctionTool(double, **settings).parallel_safe is safe


def test_other_values_are_not_tools(subtests: pytest.Subtests) -> None:
    for value in [3, "text", None, int, Bank]:
        with subtests.test(value=value):
            with pytest.raises(InvalidTool, match=r"not a tool\. Pass a function"):
                as_tool(value)


def test_tool_is_accepted_unchanged() -> None:
    mine = FunctionTool(double)
    assert as_tool(mine) is mine
    assert repr(mine) == "<tool double>"


def test_async_result_is_rendered_outside_the_event_loop() -> None:
    threads: list[int] = []

    class Slow:
        def __repr__(self) -> str:
            threads.append(threading.get_ident())
            return "drawn"

    async def draw() -> Any:
        """Draw."""
        return Slow()

    assert call(draw).text == '"drawn"'
    assert threads[0] != threading.get_ident()
