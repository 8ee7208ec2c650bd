"""Questions to the person: one kind of pause for all that waits for them, and the checks of their answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from agentnb.core.messages import encodable
from agentnb.core.nesting import MAX_DEPTH, is_too_deep
from agentnb.errors import SettingsError

QuestionKind: TypeAlias = Literal["approval", "elicitation", "plan_review", "human_step"]
"""What the person is asked for: a permission, information, a review of a plan, or a step that they do themselves."""
KINDS: tuple[QuestionKind, ...] = ("approval", "elicitation", "plan_review", "human_step")

Answerer: TypeAlias = Literal["person", "program"]
"""Who answers: the person, or a function that was given to answer in their place."""
TEXT: dict[str, Any] = {"type": "string"}
"""The schema of an answer in free text."""
YES = frozenset({"yes", "y", "true", "ok"})
NO = frozenset({"no", "n", "false"})
MAX_OF_A_PROBLEM = 300
"""Maximum characters of one sentence about an answer."""
MAX_CHOICES = 12
"""Maximum choices that a hint lists and a card shows as buttons: as many as can be seen at a glance."""
_FORMS = {
    "string": "a text",
    "boolean": "yes or no",
    "integer": "a whole number",
    "number": "a number",
    "object": "a JSON object",
    "array": "a JSON list",
    "null": "null",
}


class WaitingOnUser(msgspec.Struct, frozen=True):
    """An open question: a run waits for its answer.

    ``schema`` is the JSON Schema of the answer, ``call_id`` the tool call that asks. It is plain data in the run's log, so
    that it is still there after a kernel restart.
    """

    kind: QuestionKind
    message: str
    schema: dict[str, Any]
    id: str
    call_id: str = ""


class Answer(NamedTuple):
    """The answer to a question. ``declined``: there will be none; ``by``: who answered."""

    question_id: str
    value: Any = None
    declined: bool = False
    by: Answerer = "person"


def checked_schema(schema: Any) -> dict[str, Any]:
    """Return the JSON Schema of an answer as plain data; raise `SettingsError` if it is none. ``None`` means free text.

    The first call with another schema loads a library, which takes a moment: do not make it on an event loop's thread.
    """
    if schema is None or schema == TEXT:
        return TEXT
    from jsonschema import Draft202012Validator, SchemaError

    if not isinstance(schema, dict):
        raise SettingsError(f"schema={schema!r} is no JSON Schema", 'Write a dict, such as {"enum": ["yes", "no"]}')
    plain = _plain(schema)
    try:
        Draft202012Validator.check_schema(plain)
    except SchemaError as error:
        words = f"The schema of the answer is no JSON Schema: {_cut(error.message)}"
        raise SettingsError(words, 'Write a dict, such as {"enum": ["yes", "no"]}') from error
    return plain  # type: ignore[no-any-return]  # a dict, as it was


def checked_answer(schema: dict[str, Any], value: Any) -> Any:
    """Return the answer as plain data; raise `SettingsError`, which says what would fit, if it does not fit the schema."""
    plain = _plain(value)
    problem = _problem(schema, plain)
    if problem:
        raise SettingsError(f"That is no answer to the question: {problem}", _hint(schema))
    return plain


def answer_in_words(schema: dict[str, Any], text: str) -> Any:
    """Return the typed answer: the first reading of the text that fits the schema.

    It may be free text, one of the choices, yes or no, or JSON; raise `SettingsError`, which says what would fit, if none does.
    """
    text = encodable(text.strip())
    for value in _readings(schema, text):
        if not _problem(schema, value):
            return value
    raise SettingsError(f"That is no answer to the question: {_problem(schema, text)}", _hint(schema))


def choices(schema: dict[str, Any]) -> list[Any]:
    """Return the answers to choose from, if the schema lists them or asks for yes or no; otherwise none.

    Other forms of an answer may be possible besides those that it lists.
    """
    listed = next((one for one in (schema, *_forms(schema)) if isinstance(one.get("enum"), list)), None)
    if listed is not None:
        return listed["enum"]  # type: ignore[no-any-return]  # a list, as was just checked
    return [True, False] if schema.get("type") == "boolean" else []


def has_other_forms(schema: dict[str, Any]) -> bool:
    """Return whether an answer may be something else than one of the choices."""
    return "enum" not in schema and bool(_forms(schema))


def _forms(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in schema.get("anyOf") or () if isinstance(one, dict)]


def choice_in_words(choice: Any) -> str:
    """Return a choice as the person reads it, and may type it."""
    if isinstance(choice, bool):
        return "yes" if choice else "no"
    return choice if isinstance(choice, str) else msgspec.json.encode(choice).decode()


def _readings(schema: dict[str, Any], text: str) -> Iterator[Any]:
    yield text
    texts = [choice for choice in choices(schema) if isinstance(choice, str)]
    yield from [choice for choice in texts if choice.casefold() == text.casefold()]
    if text.casefold() in YES | NO:
        yield text.casefold() in YES
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return
    if not is_too_deep(value):
        yield value


def _problem(schema: dict[str, Any], value: Any) -> str:
    """Return what is wrong with the value, in one sentence; empty if it fits."""
    if schema == TEXT:
        return "" if isinstance(value, str) else f"{_shown(value)} is not a text"
    from jsonschema import Draft202012Validator
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    # An empty registry: no schema can make us fetch anything.
    validator = Draft202012Validator(schema, registry=Registry())
    try:
        error = next(validator.iter_errors(value), None)
    except Unresolvable as missing:
        return f"its schema refers to {missing.ref}, which is not in it"
    if error is None:
        return ""
    where = ".".join(str(step) for step in error.absolute_path)
    return _cut(f"{where}: {error.message}" if where else error.message)


def _hint(schema: dict[str, Any]) -> str:
    if found := choices(schema):
        listed = ", ".join(_cut(choice_in_words(choice)) for choice in found[:MAX_CHOICES])
        return f"Answer with one of: {listed}{', ...' if len(found) > MAX_CHOICES else ''}"
    kinds = schema.get("type")
    forms = [_FORMS[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds or ()) if kind in _FORMS]
    names = ", ".join(schema.get("properties", {}))
    return f"Answer with {' or '.join(forms) or 'JSON'}{f' with {names}' if names else ''}"


def _plain(value: Any) -> Any:
    """Return the value as JSON holds it; raise `SettingsError` if JSON cannot hold it."""
    if isinstance(value, str):
        return encodable(value)
    if is_too_deep(value):
        raise SettingsError(f"That is nested deeper than {MAX_DEPTH} levels", "Write what is deep as JSON text in one string")
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        words = encodable(_cut(f"{type(error).__name__}: {error}"))
        raise SettingsError(f"That cannot be written as JSON ({words})", "Give texts, numbers, lists and dicts") from error


def _shown(value: Any) -> str:
    return _cut(msgspec.json.encode(value).decode())


def _cut(text: str) -> str:
    """Cut the middle out of a long text: the library repeats the whole value, and its own words come at the end."""
    half = MAX_OF_A_PROBLEM // 2
    return text if len(text) <= MAX_OF_A_PROBLEM else f"{text[:half]} … {text[-half:]}"
