"""Approvals: the answers to the question whether a tool call may run, and the decisions that they make."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from agentnb.core.log.events import QuestionAnswered
from agentnb.core.log.work_events import GrantGiven
from agentnb.core.messages import ToolCall, encodable
from agentnb.core.questions import GrantOffer, GrantReach, JudgedCall, WaitingOnUser, checked_answer
from agentnb.core.redaction import redact
from agentnb.core.run.facts import RunFacts
from agentnb.errors import SettingsError
from agentnb.settings import APPROVAL_MODES

ApprovalWord: TypeAlias = Literal["auto", "ask", "never", "read_only"]
"""How much of what a run does needs the person's permission: its approval mode, as it is typed.

``auto``: calls that only the defaults would ask about run. ``ask``: the person is asked before each call of a tool that does
more than read. ``never``: the person is not asked, and what would be asked about is denied. ``read_only``: calls of tools that
do more than read are denied without a question. Without a mode, the rules and their defaults decide.
"""
AUTO, ASK, NEVER, READ_ONLY = MODES = APPROVAL_MODES
RULES = "rules"
"""The word of logs for no mode."""
APPROVE, DENY, EDIT, ALWAYS = "approve", "deny", "edit", "always"
ASKED_BY_RULES = "ask"
"""The rule of questions that the rules of a run ask: only their answers are grants."""
_REASON = re.compile(rf"\s*(?:{DENY}|no)\s*[:,]\s*(.*\S)\s*", re.IGNORECASE | re.DOTALL)
_REASON_PATTERN = r"^\s*([Dd][Ee][Nn][Yy]|[Nn][Oo])\s*[:,]\s*\S"
"""The same for JSON Schema, which knows no flags."""
_ALWAYS = re.compile(rf"\s*{ALWAYS}(?:\s+in\s+(run|session))?(?:\s*[:,]\s*(.*\S))?\s*", re.IGNORECASE | re.DOTALL)


CONTINUED = "continued"
"""The stop reason of a run that waited for its person, and that another run continues."""
_DEFINITIONS = ("$defs", "definitions")
"""Keywords of JSON Schema that hold the parts to which references lead."""


def waiting_for_approval(run: RunFacts) -> list[WaitingOnUser]:
    """Return the open questions that may outlive their process: of gates about calls of the open round, and of drafts of plans.

    What a running tool asks is not among them, nor what a gate asks about a call that a tool makes itself.
    """
    current = run.open_round
    held = {record.call.id for record in current.records if record.waits} if current is not None else set()
    return [
        question
        for question in run.waiting
        if (question.kind == "approval" and question.call_id in held) or is_of_draft(run, question)
    ]


def waits_for_drafts(run: RunFacts) -> bool:
    """Return whether it is suspended and waits for nothing but its drafts: a message of the person may continue it."""
    return run.is_suspended and bool(run.waiting) and all(is_of_draft(run, question) for question in run.waiting)


def is_of_draft(run: RunFacts, question: WaitingOnUser) -> bool:
    """Return whether it asks about a draft of this run: neither about a call of its plan, nor about a draft of a nested run."""
    return question.kind == "plan_review" and question.call_id in run.plans


def answerable_later(run: RunFacts) -> list[WaitingOnUser]:
    """Return the open questions that can be answered when the run is resumed: it was suspended, or its process died.

    Of a workflow these include what its steps ask, and the approvals that its steps, and the agents of its steps, ask for.
    """
    if run.is_suspended:
        return list(run.waiting)
    held = {question.id for question in waiting_for_approval(run)}
    return [question for question in run.waiting if question.id in held or _is_of_step(run, question)]


def _is_of_step(run: RunFacts, question: WaitingOnUser) -> bool:
    if question.kind == "human_step":
        return True
    if question.kind == "plan_review":  # of an agent that is a step
        return question.call_id in run.step_records
    if question.call_id not in run.step_records:
        return False
    is_plan_question = question.kind == "elicitation" and question.asked_by == question.call_id  # not one of a tool
    return question.kind == "approval" or is_plan_question


def checked_answers(run: RunFacts, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answers for a run that is resumed; raises `SettingsError` if they are not what it waits for."""
    waiting = {question.id: question for question in answerable_later(run)}
    for question_id in given:
        if question_id not in waiting:
            open_ids = ", ".join(waiting) or "none"
            raise SettingsError(f"Run {run.id} waits for no answer to {question_id!r}", f"Open: {open_ids}")
    return {question_id: checked_answer(waiting[question_id].schema, value) for question_id, value in given.items()}


class Decision(NamedTuple):
    """What the person decided about a tool call."""

    approved: bool
    reason: str = ""
    """Why not, in the person's words."""
    arguments: dict[str, Any] | None = None
    """The arguments that the person gave instead of the model's."""


def judged_call(call: ToolCall, rule: str, effects: str | None = None, **shown: Any) -> JudgedCall:
    """Return the whole call that a gate asks about, redacted as in the log.

    ``effects``: those that its tool declares; ``shown``: further fields of `JudgedCall`.
    """
    return redact(JudgedCall(call.name, encodable(arguments_as_json(call.arguments)), encodable(rule), effects, **shown))


def arguments_as_json(arguments: Any) -> str:
    """Return the whole arguments of a call as JSON, or their repr: a call that a tool makes may have any objects."""
    try:
        return msgspec.json.encode(arguments).decode()
    except (TypeError, ValueError, RecursionError):
        return repr(arguments)


def approval_schema(
    approvals: tuple[str, ...] = (), arguments: dict[str, Any] | None = None, grants: Sequence[GrantOffer] = ()
) -> dict[str, Any]:
    """Return the JSON Schema of an answer: approve, deny, ``deny: REASON``, ``{"deny": REASON}`` or ``{"edit": ARGUMENTS}``.

    ``approvals``: further answers that approve; ``arguments``: the schema of the arguments, if it is known; ``grants``: the
    grants that ``{"always": RULE, "reach": REACH}`` may give, or ``always in REACH: RULE``. The brackets of a rule may differ.
    """
    edited, definitions = _as_part(arguments or {"type": "object"})
    return {
        "anyOf": [
            {"enum": [APPROVE, *approvals, DENY]},
            {"type": "boolean"},
            {"type": "string", "pattern": _REASON_PATTERN},
            _object(DENY, {"type": "string"}),
            _object(EDIT, edited),
            *_grant_schemas(grants),
        ],
        **definitions,
    }


def edit_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the arguments that an answer to such a question may give instead of the model's."""
    for option in schema.get("anyOf") or ():
        edited = (
            option.get("properties", {}).get(EDIT) if isinstance(option, dict) and option.get("required") == [EDIT] else None
        )
        if isinstance(edited, dict):
            return {**edited, **{name: schema[name] for name in _DEFINITIONS if name in schema}}
    return {"type": "object"}


def _as_part(schema: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a schema for a place inside another, and the definitions that the other must hold for it.

    One with references to elsewhere than its definitions, which would lead elsewhere there, is taken for any object.
    """
    prefixes = tuple(f"#/{name}/" for name in _DEFINITIONS)
    if not all(isinstance(reference, str) and reference.startswith(prefixes) for reference in _references(schema)):
        return {"type": "object"}, {}
    definitions = {name: schema[name] for name in _DEFINITIONS if name in schema}
    return {name: reference for name, reference in schema.items() if name not in (*_DEFINITIONS, "$id", "$schema")}, definitions


def _references(schema: Any) -> list[Any]:
    references, remaining = [], [schema]
    while remaining:
        schema_part = remaining.pop()
        if isinstance(schema_part, dict):
            references += [schema_part[name] for name in ("$ref", "$dynamicRef") if name in schema_part]
            remaining += schema_part.values()
        elif isinstance(schema_part, list):
            remaining += schema_part
    return references


def _grant_schemas(grants: Sequence[GrantOffer]) -> list[dict[str, Any]]:
    """Return the schemas of the answers that give one of these grants: typed, and as an object."""
    if not grants:
        return []
    parts = [offer.rule.partition("(") for offer in grants]
    tools = dict.fromkeys(re.escape(tool) for tool, _, _ in parts)
    rule = f"({'|'.join(tools)})" + (r"(\(.+\))?" if any(bracket for _, bracket, _ in parts) else "")
    reaches = list(dict.fromkeys(offer.reach for offer in grants))
    typed = rf"^\s*[Aa]lways(\s+in\s+({'|'.join(reaches)}))?(\s*[:,]\s*{rule})?\s*$"
    examples = list(dict.fromkeys(offer.rule for offer in grants))
    properties = {ALWAYS: {"type": "string", "pattern": f"^{rule}$", "examples": examples}, "reach": {"enum": reaches}}
    return [
        {"type": "string", "pattern": typed},
        {"type": "object", "properties": properties, "required": [ALWAYS], "additionalProperties": False},
    ]


def given_grant(question: WaitingOnUser, answer: object) -> GrantOffer | None:
    """Return the grant that an answer to a question gives; None if it gives none.

    An answer that names no calls means the first that are offered for its reach, which are the narrowest.
    """
    about = question.about
    if question.kind != "approval" or about is None:
        return None
    if not about.grants:
        return GrantOffer(about.tool) if answer == ALWAYS and about.rule == ASKED_BY_RULES else None  # of an early version
    if isinstance(answer, dict) and isinstance(rule := answer.get(ALWAYS), str):
        return GrantOffer(rule, answer.get("reach", "run"))
    match = _ALWAYS.fullmatch(answer) if isinstance(answer, str) else None
    if match is None:
        return None
    reach: GrantReach = "session" if match[1] == "session" else "run"
    usual = next((offer.rule for offer in about.grants if offer.reach == reach), about.tool)
    return GrantOffer(match[2] or usual, reach)


GRANTS_SINCE = 6
"""The first schema in which an answer that gives a grant is followed by an event of its own."""


def grant_in_answer(question: WaitingOnUser, event: QuestionAnswered) -> GrantGiven | None:
    """Return the grant that an answer gives in a log from before there were grants; None if it gives none."""
    grant = None if event.declined or event.cancelled or event.withdrawn else given_grant(question, event.answer)
    if grant is None:
        return None
    return GrantGiven(
        event.seq,
        event.at,
        event.run_id,
        event.parent_id,
        grant_id=question.id,
        tool=grant.rule,
        by=event.by,
        question_id=question.id,
    )


def decision(answer: Any) -> Decision:
    """Return the decision of an answer that fits the schema."""
    if isinstance(answer, dict):
        if ALWAYS in answer:
            return Decision(True)
        if EDIT in answer:
            return Decision(True, arguments=answer[EDIT])
        return Decision(False, str(answer.get(DENY, "")))
    if isinstance(answer, str) and (match := _REASON.fullmatch(answer)):
        return Decision(False, match[1])
    return Decision(answer is True or (isinstance(answer, str) and answer != DENY))


def is_edit(answer: Any) -> bool:
    """Return whether an answer gives other arguments, or other steps of a plan."""
    return isinstance(answer, dict) and EDIT in answer


def _object(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {name: schema}, "required": [name], "additionalProperties": False}
