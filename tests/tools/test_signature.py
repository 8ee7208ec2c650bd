"""From a function to the schema for a model: hints, defaults, docstrings, and omitted parameters."""

from __future__ import annotations

import functools
import json
import typing
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import msgspec
import pytest
from asserted_sentences import Snapshot

from agentnb.core.schema.json_schema import check_schema
from agentnb.errors import InvalidTool
from agentnb.tools.function import FunctionTool
from agentnb.tools.signature import ArgumentsRefused, problems
from agentnb.tools.tool import ToolContext

if typing.TYPE_CHECKING:
    from decimal import Decimal as OnlyForTypes


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


def schema_of(function: Callable[..., Any], **settings: Any) -> dict[str, Any]:
    schema = FunctionTool(function, **settings).spec.input_schema
    check_schema(schema, "It", "")
    json.dumps(schema)
    return schema


def takes(hint: Any, *default: Any) -> Callable[..., Any]:
    """Return a function with one parameter of this type."""

    def f(x, *rest):  # type: ignore[no-untyped-def]
        return x

    f.__annotations__ = {"x": hint}
    f.__defaults__ = default or None
    return f


@pytest.mark.req("R2.3")
def test_name_description_and_schema_come_from_the_function(snapshot: Snapshot) -> None:
    def count_rows(table: str, limit: int = 10) -> int:
        """Count the rows of a table.

        Stops at the limit.
        """
        return limit

    spec = FunctionTool(count_rows).spec
    assert spec.name == "count_rows"
    assert spec.description == snapshot
    assert spec.input_schema == {
        "type": "object",
        "properties": {"table": {"type": "string"}, "limit": {"type": "integer", "default": 10}},
        "required": ["table"],
        "additionalProperties": False,
    }


HINTS = [
    (int, {"type": "integer"}),
    (float, {"type": "number"}),
    (bool, {"type": "boolean"}),
    (str, {"type": "string"}),
    (list[int], {"type": "array", "items": {"type": "integer"}}),
    (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
    (Literal["a", "b"], {"enum": ["a", "b"]}),
    (date, {"type": "string", "format": "date"}),
    (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045  # people write it
    (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
    (Any, {}),
    (Annotated[int, msgspec.Meta(ge=1)], {"type": "integer", "minimum": 1}),
    (Annotated[int, "any words"], {"type": "integer"}),
]


@pytest.mark.req("R2.3")
def test_hint_becomes_json_schema(subtests: pytest.Subtests) -> None:
    for hint, expected in HINTS:
        with subtests.test(hint=hint):
            assert schema_of(takes(hint))["properties"]["x"] == expected


@pytest.mark.req("R2.3")
def test_enums_and_dataclasses_have_members_and_fields() -> None:
    def paint(point: Point, colour: Colour, others: list[Point]) -> None: ...

    schema = schema_of(paint)
    assert schema["properties"]["point"] == {"$ref": "#/$defs/Point"}
    assert schema["properties"]["others"] == {"type": "array", "items": {"$ref": "#/$defs/Point"}}
    assert schema["$defs"]["Point"]["required"] == ["x"]
    assert schema["$defs"]["Point"]["properties"]["y"] == {"type": "integer", "default": 0}
    assert sorted(schema["$defs"]["Colour"]["enum"]) == ["blue", "red"]


@pytest.mark.req("R2.3")
def test_tool_may_have_the_same_name_as_a_parameter_type() -> None:
    assert schema_of(takes(Point), name="Point")["properties"]["x"] == {"$ref": "#/$defs/Point"}


@pytest.mark.req("R2.3")
def test_parameters_without_a_hint_accept_anything_and_are_reported() -> None:
    def f(x, y=3):  # type: ignore[no-untyped-def]
        """Do it."""

    assert schema_of(f)["properties"] == {"x": {}, "y": {"default": 3}}
    assert "x has no type hint: any value is accepted" in FunctionTool(f).signature.gaps


@pytest.mark.req("R2.3")
def test_plain_default_value_appears_in_the_schema(subtests: pytest.Subtests) -> None:
    for default in ["a", 3, 2.5, True, [1], {"a": 1}]:
        with subtests.test(default=default):
            assert schema_of(takes(Any, default))["properties"]["x"]["default"] == default


@pytest.mark.req("R2.3")
def test_parameter_with_a_default_is_not_required() -> None:
    schema = schema_of(takes(int | None, None))
    assert "x" not in schema.get("required", [])
    assert "x" not in schema_of(takes(Any, object())).get("required", [])


@pytest.mark.req("R2.3")
def test_non_json_default_is_omitted_from_the_schema() -> None:
    assert "default" not in schema_of(takes(Any, [object()]))["properties"]["x"]


GOOGLE = """Count rows.

    Args:
        table (str): Which table.
        limit: How many
            at most.

    Returns:
        The number.
    """
NUMPY = """Count rows.

    Parameters
    ----------
    table : str
        Which table.
    limit : int, optional
        How many
        at most.

    Returns
    -------
    int
        The number.
    """
REST = """Count rows.

    :param table: Which table.
    :type table: str
    :param int limit: How many
        at most.
    :returns: The number.
    """


@pytest.mark.req("R2.3")
def test_parameters_are_described_by_the_docstring(subtests: pytest.Subtests) -> None:
    for name, docstring in {"google": GOOGLE, "numpy": NUMPY, "rest": REST}.items():
        with subtests.test(name):

            def count_rows(table: str, limit: int = 10) -> int:
                return limit

            count_rows.__doc__ = docstring
            spec = FunctionTool(count_rows).spec
            assert spec.description == "Count rows."
            assert spec.input_schema["properties"]["table"] == {"type": "string", "description": "Which table."}
            described = spec.input_schema["properties"]["limit"]
            assert " ".join(described["description"].split()) == "How many at most."
            assert (described["type"], described["default"]) == ("integer", 10)


@pytest.mark.req("R2.3")
def test_names_on_one_numpy_docstring_line_are_both_described() -> None:
    def f(x: int, y: int) -> None:
        """Do it.

        Parameters
        ----------
        x, y : int
            A coordinate.
        """

    assert [p.get("description") for p in schema_of(f)["properties"].values()] == ["A coordinate.", "A coordinate."]


@pytest.mark.req("R2.3")
def test_missing_docstring_parts_and_hints_are_listed() -> None:
    def f(x, *args: int, **kwargs: int) -> None: ...  # type: ignore[no-untyped-def]

    gaps = "\n".join(FunctionTool(f).signature.gaps)
    assert "no docstring" in gaps
    assert "x is not described" in gaps
    assert "args" in gaps and "kwargs" in gaps


@pytest.mark.req("R2.3")
def test_complete_docstring_has_nothing_missing() -> None:
    def f(x: int) -> None:
        """Do it.

        Args:
            x: The number.
        """

    assert FunctionTool(f).signature.gaps == ()


@pytest.mark.req("R2.3")
def test_variadic_parameters_and_the_context_are_not_offered() -> None:
    def f(x: int, *args: int, context: ToolContext, **kwargs: int) -> None: ...

    assert list(schema_of(f)["properties"]) == ["x"]
    assert schema_of(f)["required"] == ["x"]


@pytest.mark.req("R2.3", "R2.6")
def test_properties_keep_the_order_of_the_parameters() -> None:
    def f(z: int, a: int = 1, *, m: int, b: int = 2) -> None: ...

    assert list(schema_of(f)["properties"]) == ["z", "a", "m", "b"]
    assert FunctionTool(f).spec == FunctionTool(f).spec


class Account:
    def book(self, amount: int) -> int:
        """Book an amount."""
        return amount

    @classmethod
    def open(cls, owner: str) -> str:
        """Open one."""
        return owner

    @staticmethod
    def rate(year: int) -> int:
        """Tell the rate."""
        return year

    def __call__(self, question: str) -> str:
        """Answer a question."""
        return question


@pytest.mark.req("R2.3")
def test_any_callable_can_be_a_tool(subtests: pytest.Subtests) -> None:
    cases = [
        (Account().book, "book", "Book an amount.", ["amount"]),
        (Account.open, "open", "Open one.", ["owner"]),
        (Account.rate, "rate", "Tell the rate.", ["year"]),
        (Account(), "Account", "Answer a question.", ["question"]),
        (functools.lru_cache(Account.rate), "rate", "Tell the rate.", ["year"]),
    ]
    for function, name, description, parameters in cases:
        with subtests.test(function=function):
            spec = FunctionTool(function).spec
            assert (spec.name, spec.description, list(spec.input_schema["properties"])) == (name, description, parameters)


def load(table: str, rows: int, folder: str = ".") -> str:
    """Load a table."""
    return f"{folder}/{table}:{rows}"


@pytest.mark.req("R2.3")
def test_partial_exposes_only_the_remaining_parameters() -> None:
    spec = FunctionTool(functools.partial(load, "iris"), name="load_iris").spec
    assert spec.description == "Load a table."
    assert spec.input_schema["properties"] == {"rows": {"type": "integer"}, "folder": {"type": "string", "default": "."}}


@pytest.mark.req("R2.3")
def test_partial_has_the_name_of_its_function() -> None:
    assert FunctionTool(functools.partial(load, folder="data")).spec.name == "load"


@pytest.mark.req("R2.3")
def test_callable_object_takes_its_hints_from_call() -> None:
    class Twice:
        def __init__(self, func: Callable[..., Any]) -> None:
            self.func = func

        def __call__(self, word: str) -> str:
            """Say it twice."""
            return word * 2

    spec = FunctionTool(Twice(load)).spec
    assert (spec.description, spec.input_schema["properties"]) == ("Say it twice.", {"word": {"type": "string"}})


@pytest.mark.req("R2.3")
def test_required_parameter_of_a_non_json_type_is_refused(subtests: pytest.Subtests) -> None:
    for hint in [object, Callable[[], int], complex, type, [int], any, print, complex | None]:
        with subtests.test(hint=hint):
            with pytest.raises(InvalidTool, match="f expects x"):
                FunctionTool(takes(hint))


@pytest.mark.req("R2.3")
def test_invalid_hint_is_refused_despite_a_default(subtests: pytest.Subtests) -> None:
    for hint in [[int], any, print]:
        with subtests.test(hint=hint):
            with pytest.raises(InvalidTool, match="f expects x"):
                FunctionTool(takes(hint, None))


@pytest.mark.req("R2.3")
def test_parameter_of_a_non_json_type_is_omitted_when_optional(subtests: pytest.Subtests) -> None:
    for hint in [object, Callable[[], int], complex, type, complex | None]:
        with subtests.test(hint=hint):
            function_tool = FunctionTool(takes(hint, 5))
            assert function_tool.spec.input_schema["properties"] == {}
            assert [gap for gap in function_tool.signature.gaps if gap.startswith("x is not offered")]
            assert function_tool.signature.bind({}, None) == ([], {})  # type: ignore[arg-type]
            with pytest.raises(ArgumentsRefused):
                function_tool.signature.bind({"x": 1}, None)  # type: ignore[arg-type]


@pytest.mark.req("R2.3")
def test_omitted_positional_parameter_gets_its_default() -> None:
    def f(a: int = 1, key: complex = 1j, b: int = 2, /) -> tuple[Any, ...]:
        return a, key, b

    signature = FunctionTool(f).signature
    assert signature.bind({"b": 7}, None) == ([1, 1j, 7], {})  # type: ignore[arg-type]


@pytest.mark.req("R2.3")
def test_union_keeps_its_json_members(snapshot: Snapshot) -> None:
    function_tool = FunctionTool(takes(str | complex | None, None))
    assert function_tool.spec.input_schema["properties"]["x"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert function_tool.signature.gaps[1] == snapshot


@pytest.mark.req("R2.3")
def test_untyped_parameter_takes_its_type_from_the_docstring() -> None:
    def f(x, y: int) -> None:  # type: ignore[no-untyped-def]
        """Do it.

        Args:
            x (text or path): A file.
            y (number): A row.
        """

    assert schema_of(f)["properties"]["x"] == {"description": "text or path: A file."}
    assert schema_of(f)["properties"]["y"] == {"type": "integer", "description": "A row."}


@pytest.mark.req("R2.3")
def test_data_frame_is_refused_with_an_alternative() -> None:
    import pandas as pd

    with pytest.raises(InvalidTool, match=r"f expects x: DataFrame.*Accept a name"):
        FunctionTool(takes(pd.DataFrame))


def yields() -> Any:
    yield 1


async def yields_async() -> Any:
    yield 1


class Yields:
    def __call__(self) -> Any:
        yield 1


@pytest.mark.req("R2.3")
def test_generator_is_refused(subtests: pytest.Subtests) -> None:
    cases = {"plain": yields, "async": yields_async, "partial": functools.partial(yields), "object": Yields()}
    for name, function in cases.items():
        with subtests.test(name):
            with pytest.raises(InvalidTool, match=r"yields its values.*Return a list"):
                FunctionTool(function, name="numbers")


@pytest.mark.req("R2.3")
def test_lambda_is_refused_with_a_naming_hint() -> None:
    with pytest.raises(InvalidTool, match=r"<lambda>.*@tool\(name="):
        FunctionTool(lambda x: x)
    assert FunctionTool(lambda x: x, name="same").spec.name == "same"


@pytest.mark.req("R2.3")
def test_function_name_that_no_provider_accepts_is_refused(subtests: pytest.Subtests) -> None:
    for name in ["two words", "a.b", "é", "x" * 65]:
        with subtests.test(name):
            with pytest.raises(InvalidTool, match="is not a valid tool name"):
                FunctionTool(load, name=name)


@pytest.mark.req("R2.3")
def test_unreadable_hint_is_refused(snapshot: Snapshot) -> None:
    def f(x: OnlyForTypes) -> None: ...

    with pytest.raises(InvalidTool, check=snapshot.worded):
        FunctionTool(f)


@pytest.mark.req("R2.3")
def test_function_without_a_signature_is_refused(snapshot: Snapshot) -> None:
    with pytest.raises(InvalidTool, check=snapshot.worded):
        FunctionTool(max)


@pytest.mark.req("R2.3")
def test_function_without_parameters_has_an_empty_schema() -> None:
    def now() -> str:
        """Tell the time."""
        return "noon"

    schema = schema_of(now)
    assert (schema["type"], schema["properties"], schema["additionalProperties"]) == ("object", {}, False)


@pytest.mark.req("R2.3")
def test_path_parameter_is_a_json_string_and_a_python_path() -> None:
    def f(x: Path, y: Path | None = None) -> str:
        return f"{x.name} {y}"

    function_tool = FunctionTool(f)
    assert schema_of(f)["properties"]["x"] == {"type": "string"}
    assert function_tool.signature.bind({"x": "a/b.csv"}, None) == ([], {"x": Path("a/b.csv")})  # type: ignore[arg-type]


@pytest.mark.req("R2.3")
def test_choices_keep_their_order() -> None:
    def f(x: Literal["small", "large", "huge"]) -> None: ...

    assert schema_of(f)["properties"]["x"]["enum"] == ["small", "large", "huge"]


def test_error_message_about_a_huge_argument_is_short() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    (problem,) = problems({"a": "x" * 1_000_000}, schema)
    assert problem.startswith('a: "xxx') and problem.endswith('is not of type "integer"') and len(problem) < 600
