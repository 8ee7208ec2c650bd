"""Approvals of tool calls: the person's answers, and the resulting decisions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import msgspec

from agentnb.core.key_shapes import mask_keys
from agentnb.core.log.events import NO_STORE, QuestionAnswered
from agentnb.core.log.work_events import GrantGiven
from agentnb.core.messages import ToolCall, encodable, is_invisible
from agentnb.core.questions import (
    BY_AGENT,
    REACHES,
    GrantOffer,
    GrantReach,
    JudgedCall,
    WaitingOnUser,
    check_answer,
    rule_parts,
)
from agentnb.core.redaction import MASK, redact
from agentnb.core.run.facts import RunFacts
from agentnb.errors import SettingsError
from agentnb.settings import APPROVAL_MODES

ApprovalWord: TypeAlias = Literal["auto", "ask", "never", "read_only"]
"""The mode of a run, as typed: which calls need the person's permission.

``auto``: run calls that only the defaults would ask about. ``ask``: ask before each call of a tool that does more than read.
``never``: do not ask; deny any call that would be asked about. ``read_only``: deny calls of tools that do more than read,
without asking. Without a mode, the rules and their defaults decide."""
AUTO, ASK, NEVER, READ_ONLY = MODES = APPROVAL_MODES
RULES = "rules"
"""The word for "no mode" in logs."""
APPROVE, DENY, EDIT, ALWAYS = "approve", "deny", "edit", "always"
ASKED_BY_RULES = "ask"
"""The rule name of questions asked because of a run's rules; only answers to these are grants."""
_REASON = re.compile(rf"\s*(?:{DENY}|no)\s*[:,]\s*(.*\S)\s*", re.IGNORECASE | re.DOTALL)
_REASON_PATTERN = r"^\s*([Dd][Ee][Nn][Yy]|[Nn][Oo])\s*[:,]\s*\S"
"""The same pattern for JSON Schema, which has no flags."""
_ALWAYS = re.compile(
    rf"\s*{ALWAYS}(?:\s+in\s+({'|'.join((*REACHES, BY_AGENT))}))?(?:\s*[:,]\s*(.*\S))?\s*", re.IGNORECASE | re.DOTALL
)
_ANY_HOST = re.compile(r"https?://[*.]+(?::\d+)?(?=/|$)")
MAX_SAVED = 1_000
"""Maximum number of characters in a saved rule."""
CONTINUED = "continued"
"""Stop reason of a run that waited for the person and was continued by another run."""
_DEFINITIONS = ("$defs", "definitions")
"""JSON Schema keywords that hold the targets of references."""


def waiting_for_approval(run: RunFacts) -> list[WaitingOnUser]:
    """Return the open questions that may outlive their process: gates' questions about calls of the open round, and about draft
    plans.

    Excludes questions of running tools, and gates' questions about calls made by tools.
    """
    current = run.open_round
    held_ids = {record.call.id for record in current.records if record.waits} if current is not None else set()
    return [
        question
        for question in run.waiting
        if (question.kind == "approval" and question.call_id in held_ids) or is_of_draft(run, question)
    ]


def waits_for_drafts(run: RunFacts) -> bool:
    """True if the run is suspended and waits only for its drafts: a message from the person may continue it."""
    return run.is_suspended and bool(run.waiting) and all(is_of_draft(run, question) for question in run.waiting)


def ended_at_question(run: RunFacts) -> bool:
    """True if the run was suspended without a store: no answer resumes it, only a message if it waits for its drafts."""
    return run.is_suspended and getattr(run.events[-1], "why", "") == NO_STORE


def is_of_draft(run: RunFacts, question: WaitingOnUser) -> bool:
    """True if the question is about a draft of this run, not about a call in its plan or a draft of a nested run."""
    return question.kind == "plan_review" and question.call_id in run.plans


def answerable_later(run: RunFacts) -> list[WaitingOnUser]:
    """Return the open questions that can be answered when their suspended or interrupted run is resumed.

    For a workflow, these include its steps' questions, and approvals requested by its steps and their agents.
    """
    if run.is_suspended:
        return list(run.waiting)
    held_ids = {question.id for question in waiting_for_approval(run)}
    return [question for question in run.waiting if question.id in held_ids or _is_of_step(run, question)]


def _is_of_step(run: RunFacts, question: WaitingOnUser) -> bool:
    if question.kind == "human_step":
        return True
    if question.kind == "plan_review":  # from an agent that is a step
        return question.call_id in run.step_records
    if question.call_id not in run.step_records:
        return False
    is_plan_question = question.kind == "elicitation" and question.asked_by == question.call_id  # not from a tool
    return question.kind == "approval" or is_plan_question


def check_answers(run: RunFacts, given: Mapping[str, Any]) -> dict[str, Any]:
    """Validate the answers for a run that is being resumed. Raises `SettingsError` for an unknown question or an invalid
    answer.
    """
    waiting = {question.id: question for question in answerable_later(run)}
    for question_id in given:
        if question_id not in waiting:
            open_ids = ", ".join(waiting) or "none"
            raise SettingsError(f"Run {run.id} has no open question {question_id!r}", f"Open: {open_ids}")
    return {question_id: check_answer_to(waiting[question_id], value) for question_id, value in given.items()}


def check_answer_to(question: WaitingOnUser, value: Any) -> Any:
    """Like `check_answer`, but also raises `SettingsError` if the answer allows more than the question may."""
    value = check_answer(question.schema, value)
    check_grant(question, value)
    return value


class Decision(NamedTuple):
    """The person's decision about a tool call."""

    approved: bool
    reason: str = ""
    """The reason for the denial, in the person's words."""
    arguments: dict[str, Any] | None = None
    """The person's replacement for the model's arguments."""


def judged_call(call: ToolCall, rule: str, effects: str | None = None, **shown: Any) -> JudgedCall:
    """Return the complete call that a gate asks about, redacted as in the log.

    ``effects``: declared by its tool; ``shown``: further fields of `JudgedCall`.
    """
    return redact(JudgedCall(call.name, encodable(arguments_as_json(call.arguments)), encodable(rule), effects, **shown))


def arguments_as_json(arguments: Any) -> str:
    """Return the complete arguments of a call as JSON, or their repr: a call made by a tool may contain any objects."""
    try:
        return msgspec.json.encode(arguments).decode()
    except (TypeError, ValueError, RecursionError):
        return repr(arguments)


def approval_schema(
    approvals: tuple[str, ...] = (), arguments: dict[str, Any] | None = None, grants: Sequence[GrantOffer] = ()
) -> dict[str, Any]:
    """Return the JSON Schema of an answer: approve, deny, ``deny: REASON``, ``{"deny": REASON}`` or ``{"edit": ARGUMENTS}``.

    ``approvals``: further answers that approve; ``arguments``: the schema of the arguments, if known; ``grants``: the grants
    available to ``{"always": RULE, "reach": REACH}`` or ``always in REACH: RULE``. The brackets of a rule may differ.
    """
    edited, definitions = _as_part(arguments or {"type": "object"})
    return {
        "anyOf": [
            {"enum": [APPROVE, *approvals, DENY]},
            {"type": "boolean"},
            {"type": "string", "pattern": _REASON_PATTERN},
            _object(DENY, {"type": "string"}),
            _object(EDIT, edited),
            *_grant_schemas([offer for offer in grants if offer.reach != BY_AGENT]),
            *_agent_schemas([offer.rule for offer in grants if offer.reach == BY_AGENT]),
        ],
        **definitions,
    }


def edit_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of edited arguments in an answer to this question."""
    for option in schema.get("anyOf") or ():
        edited = (
            option.get("properties", {}).get(EDIT) if isinstance(option, dict) and option.get("required") == [EDIT] else None
        )
        if isinstance(edited, dict):
            return {**edited, **{name: schema[name] for name in _DEFINITIONS if name in schema}}
    return {"type": "object"}


def _as_part(schema: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema for use inside another schema, and the definitions that the other schema must contain.

    A schema that refers to anything outside its definitions would break there, so it is replaced with one for any object.
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
    """Return the schemas of answers that give one of these grants, typed or as an object."""
    if not grants:
        return []
    parts = [rule_parts(offer.rule) for offer in grants]
    tools = dict.fromkeys(re.escape(tool) for tool, _ in parts)
    rule = f"({'|'.join(tools)})" + (r"(\(.+\))?" if any(pattern for _, pattern in parts) else "")
    reaches = list(dict.fromkeys(offer.reach for offer in grants))
    pattern = rf"^\s*[Aa]lways(\s+in\s+({'|'.join(reaches)}))?(\s*[:,]\s*{rule})?\s*$"
    examples = list(dict.fromkeys(offer.rule for offer in grants))
    properties = {ALWAYS: {"type": "string", "pattern": f"^{rule}$", "examples": examples}, "reach": {"enum": reaches}}
    return [
        {"type": "string", "pattern": pattern},
        {"type": "object", "properties": properties, "required": [ALWAYS], "additionalProperties": False},
    ]


def _agent_schemas(words: list[str]) -> list[dict[str, Any]]:
    """Return the schemas of answers that an external agent remembers, in its own words: typed, or as an object."""
    if not words:
        return []
    typed = [typed_always(BY_AGENT), *[typed_always(BY_AGENT, rule) for rule in words]]
    properties = {ALWAYS: {"enum": words}, "reach": {"const": BY_AGENT}}
    return [
        {"enum": typed},
        {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False},
    ]


def typed_always(reach: GrantReach, rule: str = "") -> str:
    """Return the typed answer that allows later calls; without a rule, it means the first offer for this reach."""
    return f"{ALWAYS} in {reach}: {rule}" if rule else f"{ALWAYS} in {reach}"


def given_grant(question: WaitingOnUser, answer: object) -> GrantOffer | None:
    """Return the grant given by an answer to a question, or None.

    An answer without a rule gives the first offer for its reach, which is the narrowest one.
    """
    judged = question.about
    if question.kind != "approval" or judged is None:
        return None
    if not judged.later_offers:
        return GrantOffer(judged.tool) if answer == ALWAYS and judged.rule == ASKED_BY_RULES else None  # from an early version
    if isinstance(answer, dict) and isinstance(rule := answer.get(ALWAYS), str):
        return GrantOffer(rule, answer.get("reach", "run"))
    match = _ALWAYS.fullmatch(answer) if isinstance(answer, str) else None
    if match is None:
        return None
    reach = cast("GrantReach", match[1] or "run")
    default_rule = next((offer.rule for offer in judged.later_offers if offer.reach == reach), judged.tool)
    return GrantOffer(match[2] or default_rule, reach)


def check_grant(question: WaitingOnUser, answer: object) -> None:
    """Raise `SettingsError` if an answer allows what no question may: a typed pattern that fits every call, or a saved rule
    that does not show what it allows, or shows a key.
    """
    grant, about = given_grant(question, answer), question.about
    if grant is None or about is None or not about.grants or grant in about.later_offers:
        return
    same_reach = [offer.rule for offer in about.grants if offer.reach == grant.reach != "project"]
    is_of_server = any(allows_all(rule) and rule != about.tool for rule in same_reach)  # one tool of an offered server
    if allows_all(grant.rule) and not is_of_server:
        example = next((offer.rule for offer in about.grants if rule_parts(offer.rule)[1]), "")
        hint = f"Write what they have in common, such as {example}" if example else f"Offered: {ALWAYS} in run"
        raise SettingsError(f"{grant.rule} would allow every call", hint)
    if grant.reach == "project" and not may_be_saved(grant.rule):
        problem = "A long rule, or one with a key or with invisible characters, is not saved"
        raise SettingsError(problem, f"Answer: {ALWAYS} in run")


def allows_all(rule: str) -> bool:
    """True if a rule allows every call of its tool."""
    return not _ANY_HOST.sub("", rule_parts(rule)[1]).strip("*/. ")


def may_be_saved(rule: str) -> bool:
    """True if the rule shows everything that it allows, and shows no key."""
    is_shown = len(rule) <= MAX_SAVED and not any(map(is_invisible, rule.replace(" ", "")))
    return is_shown and MASK not in rule and mask_keys(rule) == rule


GRANTS_SINCE = 6
"""First schema in which a grant is an event of its own, after the answer."""


def grant_in_answer(question: WaitingOnUser, event: QuestionAnswered) -> GrantGiven | None:
    """Return the grant given by an answer in a log that predates grant events, or None."""
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
    """Return the decision in an answer that fits the schema."""
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
    """True if the answer edits the arguments, or the steps of a plan."""
    return isinstance(answer, dict) and EDIT in answer


def _object(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {name: schema}, "required": [name], "additionalProperties": False}
