"""Expressions in task files: ``len(plan.steps) > 0 && iteration < 3``, and in texts ``${plan.steps[-1].name}`` and ``$name``.

An expression reads plain data, as JSON holds it, and nothing else: a path walks objects and lists, never the attributes of
Python objects, and the only function is ``len``. Its length, depth and results are bounded, so that a text from a model or a
file can be evaluated as it is.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from keyword import iskeyword
from typing import Any, NamedTuple, NoReturn, TypeVar

import msgspec
from simpleeval import SimpleEval

from agentnb.advice import Advised, WriteExpression
from agentnb.core.schema.nesting import MAX_DEPTH, is_too_deep
from agentnb.errors import ExpressionError, near

P = TypeVar("P")
"""An expression within a text, as its reader has it."""
MAX_LENGTH = 1_000
"""Maximum characters of an expression."""
MAX_LEVELS = 40
"""Maximum nesting of an expression, brackets and operators counted alike."""
MAX_BITS = 1_024
"""Maximum size of a whole number that arithmetic yields: that of the largest float."""
MAX_ITEMS = 100_000
"""Maximum characters or items that ``+`` yields."""
MAX_TEXT = 1_000_000
"""Maximum characters of all texts after substitution together."""
MAX_COMPARED = 1_000_000
"""Maximum values within what is compared or written as JSON: data that steps put together may hold one list many times."""
CONSTANTS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
KNOWN = WriteExpression("plan.steps[-1].name")
ONE_KIND = 'Compare values of one kind: "5" in quotes is a text, 5 a number'

STRING = r""""(?:[^"\\\n]|\\["'\\nt])*"|'(?:[^'\\\n]|\\["'\\nt])*'"""
"""A text within an expression, as a pattern."""
_TOKEN = re.compile(
    rf"(?P<blank>[ \t\r\n]+)|(?P<string>{STRING})"
    r"|(?P<number>(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))"
    r"|(?P<name>\$?[^\W\d]\w*)|(?P<operator>&&|\|\||[=!<>]=|//|[-+*/%<>!()\[\].])"
)
_IN_PYTHON = {"&&": "and", "||": "or", "!": "~"}  # `!` binds more tightly than comparisons, as `~` does
_PLACE = re.compile(rf"""(?:{STRING}|[^"'}}])*\}}""")
"""The rest of a ``${...}``: the expression and the bracket that closes it."""
_PATH = r"(?<!\{\{ )(?<!\{\{)\$([^\W\d]\w*)(?:\.[^\W\d]\w*|\[-?[0-9]+\])*"
_BEGINS = re.compile(rf"\$\{{|{_PATH}")
_BARE = re.compile(rf"{_PATH}(?:\(.*\))?")
"""A text that is one expression without brackets; calls of other languages are to be refused."""


def evaluate(expression: str, names: Mapping[str, Any], is_true: Callable[[Any], bool] = bool) -> Any:
    """Return the value of the expression, in which ``names`` are known; raise `ExpressionError` if it has none.

    ``&&`` and ``||`` return one of their operands, as in Python; ``len(null)`` is 0. ``is_true`` says which values they and
    ``!`` take as true. A name is looked up when its value is needed, so not behind ``false &&``.
    """
    tree = _parsed(expression)
    try:
        return _Evaluator(expression, names, is_true).eval(expression, tree)
    except ExpressionError:
        raise
    except ZeroDivisionError:
        _refuse(expression, "it divides by zero", "Ask first: n != 0 && total / n > 1")
    except _OtherKind as error:
        _refuse(expression, str(error), ONE_KIND)
    except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError, MemoryError) as error:
        _refuse(expression, f"it has no value ({type(error).__name__}: {error})")


def substituted(value: Any, names: Mapping[str, Any]) -> Any:
    """Return plain data with each ``${expression}`` and ``$name`` in its texts replaced by its value; keys stay as they are.

    A text that is exactly one expression becomes its value, of whatever type; elsewhere a text is inserted as it is, and any
    other value as JSON, while a ``$name`` that is not known stays. Inserted texts are not searched again. Raises
    `ExpressionError`.
    """

    def value_of(one: Expression) -> Any:
        return evaluate(one.text, names)

    def text_of(one: Expression) -> str:
        return one.text if one.may_be_text and one.may_be_text not in names else _as_text(one.text, value_of(one))

    return filled(value, _pieces, value_of, text_of)


def filled(
    value: Any,
    pieces: Callable[[str], Sequence[str | P]],
    value_of: Callable[[P], Any],
    text_of: Callable[[P], str],
) -> Any:
    """Return plain data with the expressions in its texts replaced; keys stay as they are. Raises `ExpressionError`.

    ``pieces``: returns the pieces of a text, texts and expressions; a text that is exactly one expression becomes what
    ``value_of`` returns for it, elsewhere an expression becomes its ``text_of``.
    """
    _check_depth(value)
    left = MAX_TEXT

    def fill(value: Any) -> Any:
        nonlocal left
        if isinstance(value, Mapping):
            return {key: fill(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [fill(item) for item in value]
        parts = pieces(value) if isinstance(value, str) else ()
        if len(parts) < 2:
            return value_of(parts[0]) if parts and not isinstance(parts[0], str) else value
        texts = []
        for part in parts:
            texts.append(part if isinstance(part, str) else text_of(part))
            left -= len(texts[-1])
            if left < 0:
                raise ExpressionError(f"The texts have more than {MAX_TEXT:,} characters with their values", "Insert less")
        return "".join(texts)

    return fill(value)


def expressions_in(text: str) -> Iterator[Expression]:
    """Yield each ``${expression}`` and ``$name`` in a text, in their order."""
    yield from (piece for piece in _pieces(text) if not isinstance(piece, str))


def names_in(expression: str) -> tuple[str, ...]:
    """Return the names that the expression reads, each once, in their order; raise `ExpressionError` if it is none.

    ``len(plan.steps) > n`` reads ``plan`` and ``n``. So a file can be checked before anything runs.
    """
    found: dict[str, int] = {}
    tree = _parsed(expression)
    functions = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in CONSTANTS and id(node) not in functions:
            found[node.id] = min(found.get(node.id, node.col_offset), node.col_offset)
    return tuple(sorted(found, key=found.__getitem__))


def paths_in(expression: str) -> tuple[str, ...]:
    """Return the paths and ``len(...)`` that the expression reads, whole and each once, in their order.

    ``len(plan.steps) > n`` reads ``len(plan.steps)`` and ``n``. Each is an expression itself.
    """
    found: dict[str, None] = {}
    left = [_parsed(expression)]
    while left:
        node = left.pop()
        if isinstance(node, ast.Attribute | ast.Subscript | ast.Call | ast.Name):
            if not (isinstance(node, ast.Name) and node.id in CONSTANTS):
                found.setdefault(ast.unparse(node))
        else:
            left += [*ast.iter_child_nodes(node)][::-1]
    return tuple(found)


def _check_depth(value: Any) -> None:
    if is_too_deep(value):
        raise ExpressionError(f"The value is nested deeper than {MAX_DEPTH} levels", "Write it flatter")


class Expression(NamedTuple):
    """An expression within a text."""

    text: str
    may_be_text: str = ""
    """The variable of a ``$name`` among other words, which stays as it is if there is no such variable."""


def _pieces(text: str) -> list[str | Expression]:
    """Return the pieces of a text that are not empty."""
    if _BARE.fullmatch(text):
        return [Expression(text)]
    found: list[str | Expression] = []
    start = 0
    while begin := _BEGINS.search(text, start):
        if begin.start() > start:
            found.append(text[start : begin.start()])
        rest = begin if begin[1] else _PLACE.match(text, begin.end())
        if rest is None:
            what = f"{_shown(text[begin.start() :])} does not end"
            raise ExpressionError(what, 'Close it with }, and its texts with their quotes; a text with ${ in it: ${"${"}')
        found.append(Expression(rest[0], begin[1]) if begin[1] else Expression(rest[0][:-1].strip()))
        start = rest.end()
    return [*found, text[start:]] if start < len(text) else found


def _as_text(expression: str, value: Any) -> str:
    """Return a value as it is inserted into a text: a text as it is, anything else as JSON. Raises `ExpressionError`."""
    if isinstance(value, str):
        return value
    try:
        check_size(value)
        return str(value) if type(value) in (int, float) else msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        _refuse(expression, f"its value cannot be written as text ({why})")


def _parsed(expression: str) -> ast.AST:
    """Return the tree of the expression, rewritten in Python, if it holds only what is allowed."""
    if not isinstance(expression, str):
        raise ExpressionError(f"{_shown(expression)} is not an expression", "Write a text, such as len(results) > 0")
    if len(expression) > MAX_LENGTH:
        raise ExpressionError(f"An expression has at most {MAX_LENGTH:,} characters, this one {len(expression):,}", "Divide it")
    return _tree(expression)


@lru_cache(maxsize=512)
def _tree(expression: str) -> ast.AST:
    source = " ".join(_tokens(expression))
    if not source:
        raise ExpressionError("The expression is blank", KNOWN)
    try:
        tree: ast.AST = ast.parse(f"({source})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        word = next((word for word in re.findall(r"\. (\w+)", source) if iskeyword(word)), "")
        hint = f'Write a field called {word} in brackets: x["{word}"]' if word else KNOWN
        _refuse(expression, "it is not complete, or not in order", hint)
    level, depth = [tree], 0
    while level:
        for node in level:
            _check_node(expression, node)
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        depth += 1
        if depth > MAX_LEVELS:
            _refuse(expression, f"it is nested deeper than {MAX_LEVELS} levels", "Divide it")
    return tree


def _check_node(expression: str, node: ast.AST) -> None:
    if isinstance(node, ast.Call):
        if not (isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1):
            _refuse(expression, f"{_path(node)} cannot be called", "The only function is len(x)")
    elif type(node) not in _NODES and type(node) not in _OPERATORS:
        _refuse(expression, f"{_path(node)} is not allowed" if isinstance(node, ast.expr) else "is not allowed", KNOWN)


def _tokens(expression: str) -> Iterator[str]:
    place = 0
    while place < len(expression):
        token = _TOKEN.match(expression, place)
        if token is None:
            _refuse(expression, f"{_shown(expression[place:], 20)} has no meaning there", KNOWN)
        place = token.end()
        if token.lastgroup != "blank":
            yield _IN_PYTHON.get(token[0], token[0].removeprefix("$"))


class _Evaluator(SimpleEval):  # type: ignore[misc]  # the library has no types
    """The library's evaluator, with paths over plain data and bounded operators; what is not listed is refused."""

    def __init__(self, expression: str, names: Mapping[str, Any], is_true: Callable[[Any], bool]) -> None:
        super().__init__(operators=_OPERATORS, functions={}, names={})
        self.nodes |= {ast.BoolOp: self._logical, ast.UnaryOp: self._unary}
        self.nodes |= {ast.Name: self._name, ast.Attribute: self._field, ast.Subscript: self._item, ast.Call: self._call}
        self._text = expression
        self._known = names
        self._is_true = is_true

    def _check_disallowed_items(self, item: Any) -> None:
        if item is not None and not isinstance(item, _PLAIN):
            _refuse(self._text, f"a value in it is a {type(item).__name__}", "Give plain data: texts, numbers, lists and dicts")
        if isinstance(item, float) and not math.isfinite(item):
            _refuse(self._text, "a number in it is not finite")

    def _name(self, node: ast.Name) -> Any:  # noqa: RET503  # `_refuse` raises
        known = self._known if node.id in self._known else CONSTANTS
        if node.id in known:
            return known[node.id]
        hint = "Write len(x)" if node.id == "len" else near(node.id, map(str, self._known)) or "No name is known here"
        _refuse(self._text, f"there is no {node.id}", hint)

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

    def _field(self, node: ast.Attribute) -> Any:
        return self._entry(node.value, self._eval(node.value), node.attr)

    def _item(self, node: ast.Subscript) -> Any:
        value, key = self._eval(node.value), self._eval(node.slice)
        if isinstance(value, dict):
            return self._entry(node.value, value, key)
        path = _path(node.value)
        if not isinstance(value, list | tuple | str):
            _refuse(self._text, f"{path} is {_kind(value)}, and has no [{key!r}]")
        if type(key) is not int:
            _refuse(
                self._text, f"{path} is {_kind(value)}: [{key!r}] is not a place in it", "Count from 0, from the end with -1"
            )
        if not -len(value) <= key < len(value):
            _refuse(self._text, f"{path} has {len(value)} items, and none at [{key}]", f"Ask first: len({path}) > 0 && ...")
        return value[key]

    def _entry(self, node: ast.AST, value: Any, key: Any) -> Any:
        path = _path(node)
        if not isinstance(value, dict):
            _refuse(self._text, f"{path} is {_kind(value)}, and has no {key}")
        if not isinstance(key, str):
            _refuse(self._text, f"{path} is {_kind(value)}: [{key!r}] names nothing in it", f'Write {path}["name"]')
        if key not in value:
            _refuse(self._text, f"{path} has no {key}", near(key, [name for name in value if isinstance(name, str)]))
        return dict.__getitem__(value, key)

    def _call(self, node: ast.Call) -> int:
        value = self._eval(node.args[0])
        if value is not None and not isinstance(value, str | list | tuple | dict):
            _refuse(self._text, f"{_path(node.args[0])} is {_kind(value)}, and has no length")
        return 0 if value is None else len(value)


_PLAIN = (str, int, float, list, tuple, dict)
_NODES = frozenset(
    {ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare}
    | {ast.Load, ast.And, ast.Or}
)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_size(value: Any) -> None:
    """Raise OverflowError for data of more values than `MAX_COMPARED`; one that is held twice counts twice."""
    count, level = 1, [value]
    while level:
        level = [item for one in level if isinstance(one, list | tuple | dict) for item in _items(one)]
        count += len(level)
        if count > MAX_COMPARED:
            raise OverflowError(f"more than {MAX_COMPARED:,} values")


def _items(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value


class _OtherKind(TypeError):
    """Raised where values of different kinds are compared: they are never equal."""


def _is_of_kind(value: Any, other: Any) -> bool:
    """Return whether two values may be equal: they are of one kind, or one of them is null."""
    return value is None or other is None or _kind_of(value) == _kind_of(other)


def _kind_of(value: Any) -> str:
    return "true or false" if isinstance(value, bool) else _kind(value)


def _mismatch(left: Any, right: Any) -> tuple[Any, Any] | None:
    """Return the first two values of different kinds that stand at the same place of both, the values themselves included."""
    level = [(left, right)]
    while level:
        below: list[tuple[Any, Any]] = []
        for one, other in level:
            if one is other:
                continue
            if not _is_of_kind(one, other):
                return one, other
            if isinstance(one, dict):
                below += [(value, other[key]) for key, value in one.items() if other is not None and key in other]
            elif isinstance(one, list | tuple) and other is not None:
                below += zip(one, other, strict=False)
        level = below
    return None


def _compared(function: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compared(left: Any, right: Any) -> bool:
        for value in (left, right):
            if isinstance(value, list | tuple | dict):
                check_size(value)
        if (mismatch := _mismatch(left, right)) is not None:
            inside = " inside them" if mismatch[0] is not left else ""
            raise _OtherKind(f"it compares {_kind(mismatch[0])} with {_kind(mismatch[1])}{inside}")
        return function(left, right)

    return compared


def _arithmetic(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return the operator for numbers only, as Python's also repeat and format texts; its result is bounded."""

    def bounded(left: Any, right: Any) -> Any:
        if not (_is_number(left) and _is_number(right)):
            raise TypeError(f"{_kind(left)} and {_kind(right)} cannot be calculated with")
        result = function(left, right)
        if isinstance(result, int) and result.bit_length() > MAX_BITS:
            raise OverflowError("the number is too large")
        return result

    return bounded


def _added(left: Any, right: Any) -> Any:
    for kind in (str, list):
        if isinstance(left, kind) and isinstance(right, kind):
            if len(left) + len(right) > MAX_ITEMS:
                raise OverflowError(f"more than {MAX_ITEMS:,} characters or items")
            return operator.add(left, right)
    return _arithmetic(operator.add)(left, right)


def _ordered(function: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compared(left: Any, right: Any) -> bool:
        if not ((_is_number(left) and _is_number(right)) or (isinstance(left, str) and isinstance(right, str))):
            raise _OtherKind(f"it compares {_kind(left)} with {_kind(right)}")
        return function(left, right)

    return compared


def _held(item: Any, holder: Any) -> bool:
    """Return whether a list has the item, an object the field, or a text the piece of text."""
    if isinstance(holder, str | dict) and not isinstance(item, str):
        raise TypeError(f"{_kind(item)} is in no {'text' if isinstance(holder, str) else 'object'}")
    if not isinstance(holder, str | list | tuple | dict):
        raise TypeError(f"{_kind(holder)} holds nothing")
    if not isinstance(holder, str):
        for value in (item, holder):
            check_size(value)
    if isinstance(holder, str | dict):
        return item in holder
    if item is None:
        return None in holder
    others = [one for one in holder if one is not None]
    alike = [one for one in others if _mismatch(item, one) is None]
    if others and not alike:
        raise _OtherKind(f"it looks for {_kind(item)} in a list that holds none{_like_it(item)}")
    return item in alike


def _like_it(item: Any) -> str:
    return " like it" if isinstance(item, list | tuple | dict) else ""


def _signed(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: _arithmetic(lambda _, number: function(number))(0, value)


_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: _added,
    ast.Sub: _arithmetic(operator.sub),
    ast.Mult: _arithmetic(operator.mul),
    ast.Div: _arithmetic(operator.truediv),
    ast.FloorDiv: _arithmetic(operator.floordiv),
    ast.Mod: _arithmetic(operator.mod),
    ast.USub: _signed(operator.neg),
    ast.UAdd: _signed(operator.pos),
    ast.Not: operator.not_,
    ast.Invert: operator.not_,
    ast.Eq: _compared(operator.eq),
    ast.NotEq: _compared(operator.ne),
    ast.Lt: _ordered(operator.lt),
    ast.LtE: _ordered(operator.le),
    ast.Gt: _ordered(operator.gt),
    ast.GtE: _ordered(operator.ge),
    ast.In: _held,
    ast.NotIn: lambda item, holder: not _held(item, holder),
}


def _path(node: ast.AST) -> str:
    """Return the part of the expression as a person wrote it, nearly."""
    return _shown(ast.unparse(node).replace("~", "!"))


def _kind(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    kinds = ((str, "a text"), (int | float, "a number"), (dict, "an object"))
    return next((words for kind, words in kinds if isinstance(value, kind)), "a list")


def _shown(value: Any, most: int = 80) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= most else f"{text[:most]}..."


def _refuse(expression: str, why: str, hint: Advised = "") -> NoReturn:
    error = ExpressionError(f"{_shown(expression)}: {_shown(why, 300)}", hint)
    error.why = _shown(why, 300)
    raise error
