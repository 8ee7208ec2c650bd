"""Questions to the person: a common mechanism for everything that waits for an answer, and the validation of answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from agentnb.core.messages import JsonObject, encodable
from agentnb.core.schema import json_schema
from agentnb.core.schema.json_schema import UnusableSchema, cut, plain_data, schema_errors
from agentnb.core.schema.nesting import is_too_deep
from agentnb.core.schema.web_addresses import web_address
from agentnb.core.schema.whole_numbers import whole_numbers
from agentnb.errors import SettingsError, suggest_names

QuestionKind: TypeAlias = Literal["approval", "elicitation", "plan_review", "human_step"]
"""Kinds of questions: a request for permission, for information, for the review of a plan, or for a step done by the person."""
KINDS: tuple[QuestionKind, ...] = ("approval", "elicitation", "plan_review", "human_step")

Answerer: TypeAlias = Literal["person", "program", "nobody"]
"""Source of an answer: the person, a program answering on their behalf, or nobody if neither is available."""
TEXT: JsonObject = {"type": "string"}
"""Schema of a free-text answer."""
INPUT_REQUIRED = "Additional input required."
"""Default text for a question that has none."""
ASK_PERSON = "ask_person"
"""The built-in tool for the agent's own questions."""
DONE: JsonObject = {"enum": ["done"]}
"""Schema of the answer to a question with an address: the person has answered there."""
YES = frozenset({"yes", "y", "true", "ok"})
NO = frozenset({"no", "n", "false"})
MAX_CHOICES = 12
"""Maximum number of choices listed in a hint and shown as buttons on a card."""
_FORMS = {
    "string": "text",
    "boolean": "yes or no",
    "integer": "a whole number",
    "number": "a number",
    "object": "a JSON object",
    "array": "a JSON list",
    "null": "null",
}


AnswerKind: TypeAlias = Literal["text", "choice", "number", "address", "json"]
"""Kinds of answers: free text, one of several choices, a number, an e-mail address or URL, or any other JSON."""
_ADDRESSES = ("uri", "email")


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """The form of an answer, which determines the input on each surface."""

    kind: AnswerKind
    choices: Sequence[Any] = ()
    """The available answers; True and False for yes or no."""
    has_others: bool = False
    """True if answers other than the choices are allowed."""


GrantReach: TypeAlias = Literal["run", "session", "project", "agent"]
"""Reach of a grant: its run and the nested runs, all runs of the session, or, if saved, all runs in a working folder. ``agent``
is not an agentnb grant: an external agent remembers the answer itself, in a place and for calls that only it knows."""
REACHES: tuple[GrantReach, ...] = ("run", "session", "project")
"""The reaches of grants that agentnb keeps."""
BY_AGENT: GrantReach = "agent"
_RULE = re.compile(r"([^(]+)(?:\((.+)\))?", re.DOTALL)


def rule_parts(rule: str) -> tuple[str, str]:
    """Split a rule such as ``bash(git status *)`` into its tool and its pattern, which is empty if there are no brackets."""
    match = _RULE.fullmatch(rule)
    return (rule, "") if match is None else (match[1], match[2] or "")


class GrantOffer(msgspec.Struct, frozen=True):
    """A grant that the person may give with an answer."""

    rule: str
    """The allowed calls: the name of a tool, a pattern such as ``bash(git status *)``, or ``mcp:NAME`` for all tools of an MCP
    server. With the reach ``agent``, the agent's own words for the answer."""
    reach: GrantReach = "run"


class ToolOrigin(msgspec.Struct, frozen=True, omit_defaults=True):
    """The MCP server of a tool, and the changes to both since first seen."""

    server: str
    """Name of the server."""
    target: str
    """Command line or address of the server, as configured."""
    tool: str
    """The server's name for the tool."""
    server_identity: str = ""
    """Digest of command, arguments and address."""
    tool_identity: str = ""
    """Digest of the server's description of the tool."""
    description: str = ""
    """The server's description of the tool."""
    changed: tuple[Literal["server", "tool"], ...] = ()
    """``server`` if the server's command, arguments or address changed; ``tool`` if the tool's description or schema did."""
    target_before: str = ""
    """Command or address when first seen, if changed and known."""
    diff: str = ""
    """Unified diff of description and schema, if they changed and the earlier ones are known."""

    @property
    def identities(self) -> tuple[str, ...]:
        """The identity of the tool, regardless of earlier states."""
        return self.server, self.tool, self.server_identity, self.tool_identity


class JudgedCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A complete tool call. For a gate's question, it is the subject of the approval and identifies the question."""

    tool: str
    arguments: str
    """All arguments, as JSON."""
    rule: str
    """The reason given by the gate that asks; empty if no gate asks."""
    effects: str | None = None
    """The declared effects of the called tool; empty if there are none, or None in logs before schema 6."""
    command: str = ""
    """The shell command executed by the call, if any."""
    diff: str = ""
    """Unified diff of the file written by the call; empty if unknown."""
    before: str = ""
    """Digest of that file before the change."""
    grants: tuple[GrantOffer, ...] = ()
    """The grants that an answer may give, narrowest reach first."""
    folder: str = ""
    """The run's working folder, with links resolved, if rules may be saved for it."""
    cannot_undo: bool = False
    """True if the change to the file cannot be undone because its old or new content contains a known key."""
    origin: ToolOrigin | None = None
    """The MCP server of the called tool, if any."""
    agent: str = ""
    """The external agent that makes the call, if it can remember the answer itself."""
    agent_words: tuple[str, ...] = ()
    """The external agent's own words for each answer that it would remember."""

    @property
    def later_offers(self) -> tuple[GrantOffer, ...]:
        """All that an answer may allow for later calls: the grants, and after them what an external agent would remember."""
        return (*self.grants, *[GrantOffer(words, BY_AGENT) for words in self.agent_words])

    def is_same(self, other: JudgedCall | None) -> bool:
        """True if another question has the same subject. Its grants may differ, and its log may be older."""
        if other is None or other.effects not in (self.effects, None):  # None before schema 6
            return False
        if _identities(self) != _identities(other):  # the tool has changed
            return False
        shown = {"effects": None, "grants": (), "diff": "", "folder": "", "cannot_undo": False, "origin": None}
        shown |= {"agent": "", "agent_words": ()}
        return replace(self, **shown) == replace(other, **shown)


def _identities(call: JudgedCall) -> tuple[str, ...]:
    return () if call.origin is None else call.origin.identities


class WaitingOnUser(msgspec.Struct, frozen=True, omit_defaults=True):
    """An open question: a run waits for its answer.

    ``schema`` is the JSON Schema of the answer, ``call_id`` the tool call that asks, ``about`` the call that a gate asks about.
    Stored as plain data in the run's log, and so available after a kernel restart.
    """

    kind: QuestionKind
    message: str
    schema: JsonObject
    id: str
    call_id: str = ""
    about: JudgedCall | None = None
    asked_by: str = ""
    """The source of the question: the name of a tool, the path of a step, or a server; empty for gates and in older logs."""
    url: str = ""
    """The address at which to answer; empty if the question is answered here."""
    problem: str = ""
    """The reason why the previous answer, an edited plan, was refused; the message begins with this reason."""
    caller: JudgedCall | None = None
    """The call on whose behalf a tool, server or plan asks, or None for other questions, for `ASK_PERSON`, and in older logs.
    """


Outcome: TypeAlias = Literal["open", "answered", "declined", "cancelled", "withdrawn"]
"""Outcome of a question: no answer yet, answered, declined, closed without a decision, or no longer awaited."""


class NoAnswer(Enum):
    """Alternatives to an answer that the person may choose, in MCP's terms."""

    DECLINE = "decline"
    """The person declines the question."""
    CANCEL = "cancel"
    """The person closes the question without deciding."""


class AskedQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question of a run, and its outcome."""

    question: WaitingOnUser
    round: int
    """Index of the round; also 0 if the question was asked before the first round."""
    asked_at: datetime | None = None
    """Time (UTC) of the question."""
    outcome: Outcome = "open"
    answer: Any = None
    """The answer as plain data, or None unless answered."""
    by: Answerer = "person"
    """The source of the answer or refusal."""
    closed_at: datetime | None = None
    """Time (UTC) of the answer, refusal or withdrawal; None while the question is open, or if its process died."""

    @property
    def has_answer(self) -> bool:
        """True if the question was answered, declined or cancelled."""
        return self.outcome in ("answered", "declined", "cancelled")

    def as_answer(self) -> Answer:
        """Return the outcome as the `Answer` that it came from."""
        is_declined = self.outcome in ("declined", "cancelled")
        return Answer(self.question.id, self.answer, is_declined, self.by, cancelled=self.outcome == "cancelled")

    @property
    def seconds(self) -> float | None:
        """Seconds from the question to its answer, refusal or withdrawal, or None if unknown."""
        if self.asked_at is None or self.closed_at is None:
            return None
        return max(0.0, (self.closed_at - self.asked_at).total_seconds())


class Answer(NamedTuple):
    """The answer to a question. ``declined``: the person will not answer; ``by``: its source; ``failed``: the answering program
    failed.

    ``cancelled``: declined by closing the question without a decision.
    """

    question_id: str
    value: Any = None
    declined: bool = False
    by: Answerer = "person"
    failed: bool = False
    cancelled: bool = False
    granted_by: str = ""
    """The source of the answer's grant, if different from ``by``."""

    @property
    def no_answer(self) -> NoAnswer | None:
        """The alternative that the person chose, or None if they answered."""
        if not self.declined:
            return None
        return NoAnswer.CANCEL if self.cancelled else NoAnswer.DECLINE


def answer_of(question_id: str, value: Any, by: Answerer = "person") -> Answer:
    """Return the answer with this value, which may be a `NoAnswer`."""
    if isinstance(value, NoAnswer):
        return Answer(question_id, declined=True, by=by, cancelled=value is NoAnswer.CANCEL)
    return Answer(question_id, value, by=by)


def by_call(questions: Iterable[AskedQuestion]) -> dict[str, list[AskedQuestion]]:
    """Group the questions by the id of the call that asked them."""
    questions_by_call: dict[str, list[AskedQuestion]] = {}
    for asked in questions:
        questions_by_call.setdefault(asked.question.call_id, []).append(asked)
    return questions_by_call


def new_question(
    kind: QuestionKind,
    message: str,
    schema: JsonObject | None,
    call_id: str,
    about: JudgedCall | None = None,
    *,
    asked_by: str = "",
    url: str = "",
    caller: JudgedCall | None = None,
) -> WaitingOnUser:
    """Return a question without an id. Raises `SettingsError` for an invalid question.

    ``url``: an http or https address for the person to open; the schema is then `DONE`.
    """
    if not isinstance(message, str) or not message.strip():
        raise SettingsError(f"{message!r} is not a question", 'For example: context.ask("...")')
    if kind not in KINDS:
        raise SettingsError(f"{kind!r} is not a question kind", suggest_names(str(kind), KINDS))
    plain = check_answer_schema(DONE if url else schema)
    opened = web_address(url).url if url else ""
    return WaitingOnUser(kind, encodable(message), plain, "", call_id, about, encodable(asked_by), opened, caller=caller)


def check_answer_schema(schema: Any) -> JsonObject:
    """Return the JSON Schema of an answer as plain data. Raises `SettingsError` for an invalid schema. ``None`` means free
    text.
    """
    if schema is None or schema == TEXT:
        return TEXT
    example = 'Pass a dict, such as {"enum": ["yes", "no"]}'
    if not isinstance(schema, dict):
        raise SettingsError(f"schema={schema!r} is not a JSON Schema", example)
    return json_schema.check_schema(schema, "The schema of the answer", example)


def check_answer(schema: JsonObject, value: Any) -> Any:
    """Return the answer as plain data, or a `NoAnswer` unchanged.

    Raises `SettingsError` with the expected form if the answer does not fit the schema.
    """
    if isinstance(value, NoAnswer):
        return value
    plain = plain_data(value)
    if refusal := _refusal(schema, plain):
        raise SettingsError(refusal)
    return whole_numbers(schema, plain)


def answer_in_words(schema: JsonObject, text: str) -> Any:
    """Parse a typed answer, using the first interpretation that fits the schema.

    The interpretations are free text, one of the choices, yes or no, and JSON. Raises `SettingsError` with the expected form if
    none fits.
    """
    text = encodable(text.strip())
    value: Any = text
    for reading in _readings(schema, text):
        if not _problem(schema, reading):
            return whole_numbers(schema, reading)
        value = reading if _named_form(schema, reading) else value
    if value is text and answer_form(schema).kind == "number":
        value = _number_in(text)
    raise SettingsError(_refusal(schema, value))


def answer_form(schema: JsonObject) -> AnswerForm:
    """Return the form of the answers for a schema."""
    kind, alternatives = (
        schema.get("type", "string"),
        [schema_ for schema_ in schema.get("anyOf") or () if isinstance(schema_, dict)],
    )
    listed = next((schema_["enum"] for schema_ in (schema, *alternatives) if isinstance(schema_.get("enum"), list)), None)
    if listed is None and kind == "boolean":
        listed = [True, False]
    if listed:
        return AnswerForm("choice", listed, "enum" not in schema and bool(alternatives))
    if kind in ("integer", "number"):
        return AnswerForm("number")
    if kind == "string":
        return AnswerForm("address" if schema.get("format") in _ADDRESSES else "text")
    return AnswerForm("json")


def choice_in_words(choice: Any) -> str:
    """Return a choice in the form that the person reads and may type."""
    if isinstance(choice, bool):
        return "yes" if choice else "no"
    return choice if isinstance(choice, str) else msgspec.json.encode(choice).decode()


def _readings(schema: JsonObject, text: str) -> Iterator[Any]:
    yield text
    texts = [choice for choice in answer_form(schema).choices if isinstance(choice, str)]
    yield from [choice for choice in texts if choice.casefold() == text.casefold()]
    if text.casefold() in YES | NO:
        yield text.casefold() in YES
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return
    if not is_too_deep(value):
        yield value


def _number_in(text: str) -> Any:
    """Parse a typed number, or return the text."""
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(text, type=int | float)
    return text


def _problem(schema: JsonObject, value: Any) -> str:
    """Describe the problem with the value in a few words; empty if it fits."""
    if schema == TEXT:
        return "" if isinstance(value, str) else f"you entered {_quote_value(value)}"
    try:
        error = next(iter(schema_errors(schema, value, formats=True)), None)
    except UnusableSchema as unusable:
        return str(unusable)
    if error is None:
        return ""
    is_plain = bool(answer_form(schema).choices) or error.keyword in ("type", "enum")
    return f"you entered {_quote_value(value)}" if not error.where and is_plain else error.sentence


def _refusal(schema: JsonObject, value: Any) -> str:
    """Return the message that refuses a value and states the expected form; empty if the value fits."""
    problem = _problem(schema, value)
    named = _named_form(schema, value) if problem else None
    if named is None:
        return f"{_request(schema)} ({problem})" if problem else ""
    error = next(iter(schema_errors(named, value, formats=True)), None)
    if error is None:
        return f"{_request(schema)} ({problem})"
    examples = named["properties"].get(error.where[0], {}).get("examples") if error.keyword == "pattern" else None
    if examples and isinstance(value[error.where[0]], str):
        return f"Please enter {' or '.join(map(cut, examples))} (you entered {_quote_value(value[error.where[0]])})"
    return f"Please correct {error.sentence}"


def _named_form(schema: JsonObject, value: Any) -> JsonObject | None:
    """Return the alternative in the schema whose required properties are all in the answer."""
    for alternative in schema.get("anyOf") or () if isinstance(value, dict) else ():
        needed = alternative.get("required") if isinstance(alternative, dict) else None
        if needed and set(needed) <= value.keys():
            return {**alternative, **{name: schema[name] for name in ("$defs", "definitions") if name in schema}}
    return None


def _request(schema: JsonObject) -> str:
    """Return the beginning of a sentence that tells the person what to enter."""
    return f"Please {'choose' if answer_form(schema).choices else 'enter'} {expected_form(schema)}"


def expected_form(schema: JsonObject) -> str:
    """Describe the form of an answer in words, such as ``a whole number`` or ``one of: red, blue``."""
    if choices := answer_form(schema).choices:
        listed = ", ".join(cut(choice_in_words(choice)) for choice in choices[:MAX_CHOICES])
        return f"one of: {listed}{', ...' if len(choices) > MAX_CHOICES else ''}"
    kinds = schema.get("type")
    forms = [_FORMS[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds or ()) if kind in _FORMS]
    names = ", ".join(schema.get("properties", {}))
    return f"{' or '.join(forms) or 'JSON'}{f' with {names}' if names else ''}"


def _quote_value(value: Any) -> str:
    return repr(cut(value)) if isinstance(value, str) else cut(msgspec.json.encode(value).decode())
