"""Expressions in files: ``len(plan.steps) > 0 && iteration < 3``, and, within text, ``${plan.steps[-1].name}`` and ``$name``
in a task file or ``{{ $steps.qa.output.score }}`` in a workflow.

Expressions read only plain JSON data: a path walks objects and lists, never the attributes of Python objects, and the only
function is ``len``. Length, depth and results are bounded, so that an expression from a model or a file can be evaluated
safely. In paths that begin with ``$``, names may contain dashes: ``$steps.first-draft.output`` is a single path, and a minus
sign after it needs a space.
"""

from __future__ import annotations

import ast
import json
import math
import operator
import re
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from keyword import iskeyword
from typing import Any, NamedTuple, NoReturn, TypeAlias

import msgspec
from simpleeval import SimpleEval

from agentnb.advice import Advised, WriteExpression
from agentnb.core.schema.data_paths import PathError, Reference, below, kind_of
from agentnb.core.schema.nesting import MAX_DEPTH, is_too_deep
from agentnb.errors import ExpressionError, suggest_names

MAX_LENGTH = 2_000
"""Maximum number of characters in an expression."""
MAX_LEVELS = 40
"""Maximum nesting of an expression, counting brackets and operators."""
MAX_BITS = 1_024
"""Maximum size of an integer result in bits, equal to that of the largest float."""
MAX_ITEMS = 100_000
"""Maximum number of characters or items in the result of ``+``."""
MAX_TEXT = 1_000_000
"""Maximum total number of characters in all strings after substitution."""
MAX_COMPARED = 1_000_000
"""Maximum number of values to compare or write as JSON: data combined by steps may contain the same list many times."""
CONSTANTS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
KNOWN = WriteExpression("plan.steps[-1].name")
ONE_KIND = 'Compare values of the same type: "5" is a string, 5 is a number'

STRING = r""""(?:[^"\\\n]|\\["'\\nt])*"|'(?:[^'\\\n]|\\["'\\nt])*'"""
"""Pattern of a string literal in an expression."""
_TOKEN = re.compile(
    rf"(?P<blank>[ \t\r\n]+)|(?P<string>{STRING})"
    r"|(?P<number>(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))"
    r"|(?P<name>\$?[^\W\d]\w*)|\.[ \t]*(?P<field>[^\W\d](?:[\w-]*\w)?)|(?P<operator>&&|\|\||[=!<>]=|//|[-+*/%<>!()\[\]])"
)
_IN_PYTHON = {"&&": "and", "||": "or", "!": "~"}  # `!` binds tighter than comparisons, like `~`
Compare: TypeAlias = Callable[[Any, Any], bool]
ValueOf: TypeAlias = Callable[[Reference], Any]
"""Function that returns the value of a path, or raises `PathError`."""


class Spelling(NamedTuple):
    """The syntax of expressions within the text of one kind of file."""

    begins: re.Pattern[str]
    """Start of an expression; its first group is the name of a path without brackets."""
    ends: re.Pattern[str]
    """Remainder of an expression with its closing bracket."""
    hint: str
    """Advice for an unterminated expression."""
    write: Callable[[Any], str]
    """Serializes a value other than a string as JSON."""
    alone: re.Pattern[str] | None = None
    """Text consisting of a single expression without brackets."""


_BARE = r"(?<!\{\{ )(?<!\{\{)\$([^\W\d]\w*)(?:\.[^\W\d]\w*|\[-?[0-9]+\])*"
OF_TASKS = Spelling(
    re.compile(rf"\$\{{|{_BARE}"),
    re.compile(rf"""((?:{STRING}|[^"'}}])*)\}}"""),
    'Close it with }, and each string in it with its quote; to write ${ itself: ${"${"}',
    lambda value: str(value) if type(value) in (int, float) else msgspec.json.encode(value).decode(),
    re.compile(rf"{_BARE}(?:\(.*\))?"),  # so that calls in other languages are refused
)
OF_WORKFLOWS = Spelling(
    re.compile(r"\{\{"),
    re.compile(rf"""((?:{STRING}|[^"'}}]|\}}(?!\}}))*)\}}\}}"""),
    'Close it with }}, and each string in it with its quote; to write {{ itself: {{ "{{" }}',
    lambda value: json.dumps(value, ensure_ascii=False, allow_nan=False),
)


class Piece(NamedTuple):
    """An expression within text."""

    expression: str
    place: int
    """Position of the expression in the text."""
    may_be_text: str = ""
    """The variable of a ``$name`` within text; without such a variable, the text is left unchanged."""


def evaluate(expression: str, names: Mapping[str, Any] | ValueOf, is_true: Callable[[Any], bool] = bool) -> Any:
    """Evaluate the expression with these ``names``. Raises `ExpressionError` if it has no value.

    ``&&`` and ``||`` return one of their operands, as in Python; ``len(null)`` is 0. ``is_true`` defines truth for them and
    ``!``. Paths are looked up lazily, so none is looked up after ``false &&``.
    """
    tree, value_of = _parse(expression), names if callable(names) else partial(_look_up, names)
    try:
        if isinstance(tree, ast.Name) and tree.id not in CONSTANTS:  # creating an evaluator takes ten times as long
            return _plain(expression, value_of(Reference(tree.id, ())))
        return _Evaluator(expression, value_of, is_true).eval(expression, tree)
    except PathError as error:
        raise expression_error(expression, error.what, error.advice, type(error)) from None
    except ExpressionError:
        raise
    except ZeroDivisionError:
        _refuse(expression, "it divides by zero", "Check first: n != 0 && total / n > 1")
    except _OtherKind as error:
        _refuse(expression, str(error), ONE_KIND)
    except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError, MemoryError) as error:
        _refuse(expression, f"it has no value ({type(error).__name__}: {error})")


def _look_up(names: Mapping[str, Any], path: Reference) -> Any:
    root = path.root.removeprefix("$")
    if root not in names:
        hint = "Write len(x)" if root == "len" else suggest_names(root, map(str, names)) or "No names are available here"
        raise PathError(f"there is no {root}", hint)
    return below(names[root], path)


def substitute(value: Any, names: Mapping[str, Any]) -> Any:
    """Replace each ``${expression}`` and ``$name`` in the strings of plain data with its value, in the syntax of task files."""
    return fill_in(value, OF_TASKS, lambda expression: evaluate(expression, names), names)


def fill_in(value: Any, spelling: Spelling, value_of: Callable[[str], Any], known: Container[str] = ()) -> Any:
    """Replace each expression in the strings of plain data with its value. Keys remain unchanged.

    A string that is exactly one expression becomes its value, of any type. Within other text, strings are inserted unchanged
    and other values as JSON, and a ``$name`` that is not ``known`` remains. Inserted text is not searched again. Raises
    `ExpressionError`.
    """
    _check_depth(value)
    remaining = MAX_TEXT

    def fill(text: str) -> Any:
        nonlocal remaining
        parts = pieces(text, spelling)
        if len(parts) < 2:
            return value_of(parts[0].expression) if parts and isinstance(parts[0], Piece) else text
        texts = []
        for part in parts:
            if isinstance(part, str) or (part.may_be_text and part.may_be_text not in known):
                texts.append(part if isinstance(part, str) else part.expression)
            else:
                texts.append(as_text(part.expression, value_of(part.expression), spelling))
            remaining -= len(texts[-1])
            if remaining < 0:
                raise ExpressionError(
                    f"The text has more than {MAX_TEXT:,} characters after substitution", "Insert shorter values"
                )
        return "".join(texts)

    return _with_texts(value, fill)


def _with_texts(value: Any, change: Callable[[str], Any]) -> Any:
    """Apply a function to each string of plain data."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _with_texts(item, change) for key, item in value.items()}
    return [_with_texts(item, change) for item in value] if isinstance(value, list | tuple) else value


def references_in(expression: str) -> tuple[Reference, ...]:
    """Return the paths that the expression reads, in order, including those inside brackets.

    ``len(plan.steps) > n`` reads ``plan.steps`` and ``n``. Used to check a file before it runs. Raises `ExpressionError` for an
    invalid expression.
    """
    nodes = [*ast.walk(_parse(expression))]
    within = {id(getattr(node, "func", None) or getattr(node, "value", None)) for node in nodes}
    references = [_reference(node) for node in nodes if isinstance(node, (*_PATHS, ast.Name)) and id(node) not in within]
    return tuple(sorted((reference for reference in references if reference is not None), key=lambda one: one.place))


def _reference(node: ast.expr) -> Reference | None:
    """Return the path of a node, or None for a constant, or for a path that begins with a value."""
    written, parts = ast.unparse(node), []
    while isinstance(node, _PATHS):
        parts.append(node.attr if isinstance(node, ast.Attribute) else _literal(node.slice))
        node = node.value
    if not isinstance(node, ast.Name) or node.id in CONSTANTS:
        return None
    return Reference(node.id, tuple(reversed(parts)), written, node.col_offset)


def _literal(node: ast.expr) -> Any:
    with suppress(ValueError):
        return ast.literal_eval(node)
    return None


def names_in(expression: str) -> tuple[str, ...]:
    """Return the distinct root names of the expression's paths, in order. Raises `ExpressionError` for an invalid
    expression.
    """
    return tuple(dict.fromkeys(path.root.removeprefix("$") for path in references_in(expression)))


def paths_in(expression: str) -> tuple[str, ...]:
    """Return the distinct paths and ``len(...)`` that the expression reads, in order.

    ``len(plan.steps) > n`` reads ``len(plan.steps)`` and ``n``. Each of these is itself an expression.
    """
    paths: dict[str, None] = {}
    remaining = [_parse(expression)]
    while remaining:
        node = remaining.pop()
        if isinstance(node, (*_PATHS, ast.Call, ast.Name)):
            if not (isinstance(node, ast.Name) and node.id in CONSTANTS):
                paths.setdefault(ast.unparse(node))
        else:
            remaining += [*ast.iter_child_nodes(node)][::-1]
    return tuple(paths)


def _check_depth(value: Any) -> None:
    if is_too_deep(value):
        raise ExpressionError(f"The value is nested deeper than {MAX_DEPTH} levels", "Reduce the nesting")


def pieces(text: str, spelling: Spelling) -> list[str | Piece]:
    """Split text into its expressions and the non-empty literal text between them. Raises `ExpressionError`."""
    if spelling.alone is not None and spelling.alone.fullmatch(text):
        return [Piece(text, 0)]
    parts: list[str | Piece] = []
    start = 0
    while begin := spelling.begins.search(text, start):
        if begin.start() > start:
            parts.append(text[start : begin.start()])
        match = begin if begin.lastindex else spelling.ends.match(text, begin.end())
        if match is None:
            raise ExpressionError(f"{_shorten(text[begin.start() :], 60)} is not closed", spelling.hint)
        parts.append(Piece(match[0], begin.start(), match[1]) if begin.lastindex else Piece(match[1], begin.end()))
        start = match.end()
    return [*parts, text[start:]] if start < len(text) else parts


def as_text(expression: str, value: Any, spelling: Spelling) -> str:
    """Format a value for insertion into text: strings unchanged, anything else as JSON. Raises `ExpressionError`."""
    if isinstance(value, str):
        return value
    try:
        check_size(value)
        return spelling.write(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        detail = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        _refuse(expression, f"its value cannot be written as text ({detail})")


def _parse(expression: str) -> ast.AST:
    """Parse the expression into a Python syntax tree, allowing only the supported syntax."""
    if not isinstance(expression, str):
        raise ExpressionError(f"{_shorten(expression)} is not an expression", "Write a string, such as len(results) > 0")
    if len(expression) > MAX_LENGTH:
        raise ExpressionError(f"The expression has {len(expression):,} characters, more than {MAX_LENGTH:,}", "Split it")
    return _tree(expression)


@lru_cache(maxsize=512)
def _tree(expression: str) -> ast.AST:
    names: list[tuple[str, int]] = []
    source = " ".join(_tokens(expression, names))
    if not source:
        raise ExpressionError("The expression is blank", KNOWN)
    try:
        tree: ast.AST = ast.parse(f"({source})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        _refuse(expression, "it is incomplete or invalid", KNOWN)
    level, depth = [tree], 0
    while level:
        for node in level:
            if isinstance(node, ast.Name):
                node.id, node.col_offset = names[int(node.id[1:])]
            elif isinstance(node, ast.Attribute):
                node.attr, _ = names[int(node.attr[1:])]
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        depth += 1
        if depth > MAX_LEVELS:
            _refuse(expression, f"it is nested deeper than {MAX_LEVELS} levels", "Split it")
    for node in ast.walk(tree):
        _check_node(expression, node)
    return tree


def _check_node(expression: str, node: ast.AST) -> None:
    if isinstance(node, ast.Call):
        if not (isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1):
            _refuse(expression, f"{_path(node)} cannot be called", "The only function is len(x)")
    elif type(node) not in _NODES and type(node) not in _OPERATORS:
        _refuse(expression, f"{_path(node)} is not allowed" if isinstance(node, ast.expr) else "is not allowed", KNOWN)


def _tokens(expression: str, names: list[tuple[str, int]]) -> Iterator[str]:
    """Yield the expression's tokens as Python tokens. Collects the names in ``names`` and replaces them with ``w0``, ``w1``,
    ...
    """
    position, has_dashes = 0, False
    while position < len(expression):
        token = _TOKEN.match(expression, position)
        if token is None:
            swapped = {"=<": "<=", "=>": ">="}.get(expression[position : position + 2])
            hint = f"Write {swapped}" if swapped else KNOWN
            _refuse(expression, f"{_shorten(expression[position:], 20)} is not valid there", hint)
        name, position = token["name"] or token["field"], token.end()
        has_dashes = has_dashes or token[0].startswith("$")
        if name is None or (token["name"] and iskeyword(name)):
            if token.lastgroup != "blank":
                yield _IN_PYTHON.get(token[0], token[0])
            continue
        if not has_dashes:
            name = name.partition("-")[0]
            position = token.start(token.lastgroup or 0) + len(name)
        names.append((name, token.start()))
        yield f"{'.' if token['field'] else ''}w{len(names) - 1}"


class _Evaluator(SimpleEval):  # type: ignore[misc]  # the library has no types
    """The library's evaluator, with paths over plain data and bounded operators; anything else is refused."""

    def __init__(self, expression: str, value_of: ValueOf, is_true: Callable[[Any], bool]) -> None:
        super().__init__(operators=_OPERATORS, functions={}, names={})
        self.nodes |= {ast.BoolOp: self._logical, ast.UnaryOp: self._unary, ast.Call: self._call}
        self.nodes |= dict.fromkeys((ast.Name, *_PATHS), self._path)
        self._text = expression
        self._value_of = value_of
        self._is_true = is_true

    def _check_disallowed_items(self, item: Any) -> None:
        _plain(self._text, item)

    def _path(self, node: ast.expr) -> Any:
        parts: list[Any] = []
        while isinstance(node, _PATHS):
            parts.insert(0, node.attr if isinstance(node, ast.Attribute) else self._eval(node.slice))
            node = node.value
        if not isinstance(node, ast.Name):
            return below(self._eval(node), Reference(_path(node), tuple(parts)))
        if node.id in CONSTANTS:
            return below(CONSTANTS[node.id], Reference(node.id, tuple(parts)))
        return self._value_of(Reference(node.id, tuple(parts)))

    def _logical(self, node: ast.BoolOp) -> Any:
        value: Any = None
        for operand in node.values:
            value = self._eval(operand)
            if self._is_true(value) == isinstance(node.op, ast.Or):
                break
        return value

    def _unary(self, node: ast.UnaryOp) -> Any:
        value = self._eval(node.operand)
        return not self._is_true(value) if isinstance(node.op, ast.Not | ast.Invert) else _OPERATORS[type(node.op)](value)

    def _call(self, node: ast.Call) -> int:
        value = self._eval(node.args[0])
        if value is not None and not isinstance(value, str | list | tuple | dict):
            _refuse(self._text, f"{_path(node.args[0])} is {kind_of(value)} and has no length")
        return 0 if value is None else len(value)


def _plain(expression: str, item: Any) -> Any:
    """Return a value for use in an expression. Raises `ExpressionError` unless it is plain data."""
    if item is not None and not isinstance(item, _PLAIN):
        _refuse(
            expression,
            f"it contains a value of type {type(item).__name__}",
            "Use plain data: strings, numbers, lists and dicts",
        )
    if isinstance(item, float) and not math.isfinite(item):
        _refuse(expression, "it contains a number that is not finite")
    return item


_PATHS = (ast.Attribute, ast.Subscript)
_PLAIN = (str, int, float, list, tuple, dict)
_NODES = frozenset(
    {ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare}
    | {ast.Load, ast.And, ast.Or}
)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_size(value: Any) -> None:
    """Raise OverflowError for data with more than `MAX_COMPARED` values, counting a shared value each time it occurs."""
    count, level = 1, [value]
    while level:
        level = [item for container in level if isinstance(container, list | tuple | dict) for item in _items(container)]
        count += len(level)
        if count > MAX_COMPARED:
            raise OverflowError(f"more than {MAX_COMPARED:,} values")


def _items(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value


class _OtherKind(TypeError):
    """A comparison of values of different kinds, which are never equal."""


def _may_be_equal(value: Any, other: Any) -> bool:
    """True if the values are of the same kind, or if one is null."""
    return value is None or other is None or _class_of(value) == _class_of(other)


def _class_of(value: Any) -> str:
    return "true or false" if isinstance(value, bool) else kind_of(value)


def _mismatch(left: Any, right: Any) -> tuple[Any, Any] | None:
    """Return the first two values of different kinds at the same position in both, beginning with the values themselves."""
    level = [(left, right)]
    while level:
        inner: list[tuple[Any, Any]] = []
        for first, second in level:
            if first is second:
                continue
            if not _may_be_equal(first, second):
                return first, second
            if isinstance(first, dict):
                inner += [(value, second[key]) for key, value in first.items() if second is not None and key in second]
            elif isinstance(first, list | tuple) and second is not None:
                inner += zip(first, second, strict=False)
        level = inner
    return None


def _comparison(function: Compare) -> Compare:
    def compare(left: Any, right: Any) -> bool:
        for value in (left, right):
            if isinstance(value, list | tuple | dict):
                check_size(value)
        if (mismatch := _mismatch(left, right)) is not None:
            suffix = " inside them" if mismatch[0] is not left else ""
            raise _OtherKind(f"it compares {kind_of(mismatch[0])} with {kind_of(mismatch[1])}{suffix}")
        return function(left, right)

    return compare


def _arithmetic(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a bounded operator for numbers only, because Python's operators also repeat and format strings."""

    def calculate(left: Any, right: Any) -> Any:
        if not (_is_number(left) and _is_number(right)):
            raise TypeError(f"{kind_of(left)} and {kind_of(right)} cannot be used in arithmetic")
        result = function(left, right)
        if isinstance(result, int) and result.bit_length() > MAX_BITS:
            raise OverflowError("the number is too large")
        return result

    return calculate


def _add(left: Any, right: Any) -> Any:
    for kind in (str, list):
        if isinstance(left, kind) and isinstance(right, kind):
            if len(left) + len(right) > MAX_ITEMS:
                raise OverflowError(f"more than {MAX_ITEMS:,} characters or items")
            return operator.add(left, right)
    return _arithmetic(operator.add)(left, right)


def _ordering(function: Compare) -> Compare:
    def compare(left: Any, right: Any) -> bool:
        if not ((_is_number(left) and _is_number(right)) or (isinstance(left, str) and isinstance(right, str))):
            raise _OtherKind(f"it compares {kind_of(left)} with {kind_of(right)}")
        return function(left, right)

    return compare


def _contains(item: Any, holder: Any) -> bool:
    """True if the list contains the item, the object the field, or the string the substring."""
    if isinstance(holder, str | dict) and not isinstance(item, str):
        raise TypeError(f"{kind_of(holder)} cannot contain {kind_of(item)}")
    if not isinstance(holder, str | list | tuple | dict):
        raise TypeError(f"{kind_of(holder)} cannot contain other values")
    if not isinstance(holder, str):
        for value in (item, holder):
            check_size(value)
    if isinstance(holder, str | dict):
        return item in holder
    if item is None:
        return None in holder
    others = [item_ for item_ in holder if item_ is not None]
    alike = [item_ for item_ in others if _mismatch(item, item_) is None]
    if others and not alike:
        raise _OtherKind(f"it looks for {kind_of(item)} in a list that contains none{_like_it(item)}")
    return item in alike


def _like_it(item: Any) -> str:
    return " like it" if isinstance(item, list | tuple | dict) else ""


def _unary_operator(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: _arithmetic(lambda _, number: function(number))(0, value)


_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: _add,
    ast.Sub: _arithmetic(operator.sub),
    ast.Mult: _arithmetic(operator.mul),
    ast.Div: _arithmetic(operator.truediv),
    ast.FloorDiv: _arithmetic(operator.floordiv),
    ast.Mod: _arithmetic(operator.mod),
    ast.USub: _unary_operator(operator.neg),
    ast.UAdd: _unary_operator(operator.pos),
    ast.Not: operator.not_,
    ast.Invert: operator.not_,
    ast.Eq: _comparison(operator.eq),
    ast.NotEq: _comparison(operator.ne),
    ast.Lt: _ordering(operator.lt),
    ast.LtE: _ordering(operator.le),
    ast.Gt: _ordering(operator.gt),
    ast.GtE: _ordering(operator.ge),
    ast.In: _contains,
    ast.NotIn: lambda item, holder: not _contains(item, holder),
}


def _path(node: ast.AST) -> str:
    """Return this part of the expression, approximately as written."""
    return _shorten(ast.unparse(node).replace("~", "!"))


def _shorten(value: Any, most: int = 80) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= most else f"{text[:most]}..."


def _refuse(expression: str, why: str, hint: Advised = "") -> NoReturn:
    raise expression_error(expression, why, hint)


def expression_error(
    expression: str, why: str, hint: Advised = "", kind: type[ExpressionError] = ExpressionError
) -> ExpressionError:
    """Return the error that quotes an expression and explains why it has no value."""
    error = kind(f"{_shorten(expression)}: {_shorten(why, 300)}", hint)
    error.why = _shorten(why, 300)
    return error
