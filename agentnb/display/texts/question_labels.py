"""The wording of questions to the person and of their answers, used in both text and HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from agentnb.advice import AnswerRun
from agentnb.core.plans.plan_steps import ASKING
from agentnb.core.questions import (
    ASK_PERSON,
    BY_AGENT,
    AskedQuestion,
    GrantOffer,
    GrantReach,
    JudgedCall,
    NoAnswer,
    WaitingOnUser,
    answer_form,
    choice_in_words,
    rule_parts,
)
from agentnb.core.run.approvals import (
    ALWAYS,
    APPROVE,
    ASK,
    AUTO,
    DENY,
    NEVER,
    READ_ONLY,
    RULES,
    decision,
    given_grant,
    typed_always,
)
from agentnb.core.schema.form_fields import FormField
from agentnb.core.schema.json_schema import FORMATS_IN_WORDS
from agentnb.core.schema.web_addresses import WebAddress, web_address
from agentnb.detect.run import Run
from agentnb.display.texts.call_labels import argument_words
from agentnb.display.texts.judged_call import call_text, question_text
from agentnb.display.texts.labels import clean, cut, first_line, pluralize
from agentnb.display.texts.notebook_commands import in_notebook
from agentnb.display.texts.visible_text import visible, visible_name
from agentnb.errors import AgentnbError, SettingsError
from agentnb.key_files import is_key_file
from agentnb.policies.permissions.path_rules import with_tilde
from agentnb.policies.permissions.run_permissions import Permissions
from agentnb.runtime.questions.saved_rules import SavedRule, SavedRules, rules_folder
from agentnb.tools.mcp.mcp_server import PREFIX

ASKS = {
    "approval": "The agent asks for your approval",
    "elicitation": "The agent asks you",
    "plan_review": "The agent asks you: may this plan run?",
    "human_step": "This step is yours",
}
"""Titles of open questions, by kind."""
HAD_ASKED = {
    "approval": "It had asked for your approval",
    "elicitation": "It had asked you",
    "plan_review": "It had asked you whether this plan may run",
    "human_step": "This step was yours",
}
"""Titles for a run that ended with the question open."""
ASKED = {
    "approval": "It asked for your approval",
    "elicitation": "It asked you",
    "plan_review": "It asked you whether this plan may run",
    "human_step": "This step was yours",
}
"""Titles of closed questions."""
_SUBJECTS = ("The agent", "It")
"""The beginnings of titles that are replaced by the asker, if that is not the agent itself."""
MAX_LISTED = 400
"""Maximum characters of the choices in a line of text."""
MAX_WITH_QUESTIONS = 10
"""Maximum number of suspended runs whose questions are listed: each takes reading its log."""
MAX_OF_A_CALL = 100_000
"""Maximum characters of a question's call in the text of a run."""
MAX_PATTERN = 300
"""Maximum characters of a field's pattern."""
LATER = "Later"
LATER_TITLE = in_notebook((AnswerRun(lead="Suspend the run until you answer, even after a restart"),))
"""Label and title of the button that suspends a run."""
REACHES: dict[GrantReach, str] = {
    "run": "in this run",
    "session": "until the kernel ends",
    "project": "in this project, saved",
    BY_AGENT: "remembered by the agent itself",
}
"""The scope of each grant, as text."""
DECLINE, DECLINE_TITLE = "Decline", "Say no to the question"
CANCEL, CANCEL_TITLE = "Cancel", "Close the question without deciding"
"""Labels and titles of the buttons that answer without a value."""
TYPED_NO_ANSWER = {"--decline": NoAnswer.DECLINE, "--cancel": NoAnswer.CANCEL}
"""Options that take the place of an answer."""
NO_ANSWER = {
    "declined": "You declined to answer",
    "cancelled": "You closed it without deciding",
    "withdrawn": "Withdrawn before it was answered",
}
"""Why a closed question has no answer."""
DECLINED_BY = {"program": "No answer from the function that answers for you", "nobody": "Nobody could answer here"}
"""Reasons shown if something other than the person declined a question."""
CANCELLED_BY = {"program": "Closed without deciding by the function that answers for you"}
"""Reasons shown if something other than the person cancelled a question."""

MODES = {
    AUTO: "calls that no rule or gate decides run without a question",
    ASK: "you are asked about each call to a tool that does more than read",
    NEVER: "you are not asked; calls that would ask are denied",
    READ_ONLY: "only read-only tools may run",
}
"""The meaning of each mode."""


def title_of(question: WaitingOnUser, titles: Mapping[str, str]) -> str:
    """Return the title of a question, naming the asker unless it is the agent itself."""
    words, name = titles.get(question.kind, titles["elicitation"]), asker_in_words(question)
    if not name:
        return words
    if question.kind == "human_step":
        return f"{words}: {name}"
    subject = next((item for item in _SUBJECTS if words.startswith(item)), "")
    return f"{name}{words.removeprefix(subject)}"


def asker_in_words(question: WaitingOnUser) -> str:
    """Return a separate line that names the asker; empty for the agent itself, and for a rule or gate that asks about a
    call.
    """
    if question.kind == "approval" or question.asked_by in ("", ASK_PERSON):
        return ""
    if question.asked_by == question.call_id and question.asked_by.rpartition("/")[2].startswith(ASKING):
        return "The plan"
    return visible(" ".join(question.asked_by.split()))


def address_of(question: WaitingOnUser) -> WebAddress | None:
    """Return the address that a question asks the person to open, or None if it has no valid address, which may happen
    in a log.
    """
    with suppress(SettingsError):
        return web_address(question.url) if question.url else None
    return None


def host_in_words(address: WebAddress) -> str:
    """Return the host of an address, including its ASCII form if it contains non-ASCII letters."""
    host = visible(address.host)
    return host if address.host == address.ascii_host else f"{host} ({address.ascii_host})"


def address_lines(question: WaitingOnUser) -> list[str]:
    """Return the host and full address that a question asks the person to open, one line each; empty for other questions."""
    if not question.url:
        return []
    address = address_of(question)
    host = [] if address is None else [f"Host: {host_in_words(address)}"]
    return [*host, f"Address: {visible(question.url)}"]


def question_lines(run: Run) -> list[str]:
    """Return the open questions with their choices, in the past tense if the run's process died."""
    asks = "had asked" if run.status == "interrupted" else "asks"
    lines = []
    for item in run.waiting:
        which = f"{item.id}: " if len(run.waiting) > 1 else ""
        lines.append(f"{which}{asker_in_words(item) or 'It'} {asks}: {clean(question_text(item))}{_choices(item)}")
        lines += address_lines(item)
        if call := call_text(item):
            lines += [*(["About this call:"] if item.about else []), cut(call, MAX_OF_A_CALL)]
    return lines


def suspended_lines(ids: Iterable[str], load: Callable[[str], Run]) -> Iterator[str]:
    """Yield a line for each suspended run, newest first; for the newest ones also their questions.

    ``load``: reads the log of a run.
    """
    for place, run_id in enumerate(ids):
        yield in_notebook((AnswerRun(run_id, lead=f"Run {run_id} is waiting for your answer"),))
        with suppress(AgentnbError):  # its log is damaged, or was just deleted
            yield from question_lines(load(run_id)) if place < MAX_WITH_QUESTIONS else ()


def closed_question_lines(asked: AskedQuestion, most: int) -> list[str]:
    """Return a closed question and its answer, one line of up to ``most`` characters each; empty while it is open.

    They are on separate lines, so that no question can pretend to have an answer.
    """
    if asked.outcome == "open":
        return []
    who = asker_in_words(asked.question) or "It"
    question = f"{who} asked: {first_line(question_text(asked.question), most)}{_choices(asked.question)}"
    addresses = [first_line(line, most) for line in address_lines(asked.question)]
    return [question, *addresses, first_line(answer_told(asked), most)]


def answer_told(asked: AskedQuestion) -> str:
    """Return the outcome of a question, such as ``You: Vienna``, or why there is no answer; empty while it is open."""
    if asked.outcome == "answered":
        return "".join(answer_parts(asked))
    others = {"declined": DECLINED_BY, "cancelled": CANCELLED_BY}.get(asked.outcome, {})
    if asked.by in others:
        return others[asked.by]
    return NO_ANSWER.get(asked.outcome, "")


def answer_parts(asked: AskedQuestion) -> tuple[str, str]:
    """Return who answered, and the answer as text; for a question about a call, the decision and the reason for a rejection."""
    who, answer = author(asked), asked.answer
    if asked.question.kind != "approval" or asked.question.about is None:
        return f"{who}: ", choice_in_words(answer)
    return f"{who} ", "".join(decision_pieces(asked.question, asked.question.about, answer))


def decision_pieces(question: WaitingOnUser, about: JudgedCall, answer: Any) -> tuple[str, str, str]:
    """Return the decision about a call: the text before the later calls that it allows, those calls, and the text after."""
    choice, grant = decision(answer), given_grant(question, answer)
    if grant is not None and grant.reach == BY_AGENT:
        return f"approved; {visible_name(about.agent)} remembers it: ", f"'{visible(grant.rule)}'", ""
    if grant is not None:
        before, calls, after = later_calls(grant.rule, about)
        return (
            f"approved, and all later {before or 'calls that match '}",
            calls,
            f"{after} {REACHES.get(grant.reach, grant.reach)}",
        )
    if not choice.approved:
        return "rejected", "", f": “{choice.reason}”" if choice.reason else ""
    if choice.arguments is not None:
        return "approved with other arguments: ", argument_words(choice.arguments, MAX_OF_A_CALL), ""
    return "approved", "", "" if answer in (APPROVE, True) else f": {choice_in_words(answer)}"


def later_calls(rule: str, about: JudgedCall) -> tuple[str, str, str]:
    """Return the calls that a grant allows as a noun phrase in three parts, the middle one being the name or pattern."""
    server = server_of_rule(rule)
    if server:
        return "calls to the MCP server ", visible_name(server), ""
    if rule == about.tool:
        return "calls of ", visible_name(rule), ""
    tool, pattern = rule_parts(rule)
    calls = visible(pattern if about.command and tool == about.tool else rule)
    return "", calls, " (only this file, which may contain keys)" if is_of_key_file(rule, about) else ""


def grant_in_words(grant: GrantOffer, about: JudgedCall) -> str:
    """Return the calls that a grant allows, and its scope; for an agent's own memory, its words and a warning."""
    if grant.reach == BY_AGENT:
        return f"'{visible(grant.rule)}' ({memory_in_words(about)})"
    return f"{''.join(later_calls(grant.rule, about))}, {REACHES.get(grant.reach, grant.reach)}"


def memory_in_words(about: JudgedCall) -> str:
    """Return a note that an external agent itself remembers an answer."""
    return f"remembered by {visible_name(about.agent)} itself; agentnb can neither list nor withdraw it"


def saved_reach(saved: SavedRule) -> str:
    """Return when a rule was saved and for which folder."""
    return f"saved on {saved.saved_at:%Y-%m-%d} for runs in {visible(with_tilde(Path(saved.folder)))}"


def saved_rules_lines(folder: str, found: SavedRules, see: str) -> Iterator[str]:
    """Yield lines with the number of a folder's saved rules, and with the files that allow nothing. ``see``: where the
    rules are listed.
    """
    if found.rules:
        count = pluralize(len(found.rules), "saved rule")
        yield f"{count} in force in {visible(with_tilde(Path(folder)))}: such calls run without a question. {see}"
    if found.refused:
        names = ", ".join(map(visible, found.refused))
        where = visible(with_tilde(rules_folder()))
        yield f"Ignored, because damaged, writable by others, or about a path that now leads elsewhere: {names} in {where}"


def is_of_key_file(rule: str, about: JudgedCall) -> bool:
    """Return whether a rule covers calls on a single file that, by its name, may hold keys."""
    path = "" if about.command else rule_parts(rule)[1]
    return bool(path) and "*" not in path and is_key_file(path.rpartition("/")[2])


def limits_in_words(field: FormField) -> list[str]:
    """Return the limits on a field's value, each in a few words."""
    lowest, highest = field.limits
    unit = {"text": " characters", "lines": " characters", "choices": " of these"}.get(field.kind, "")
    unit = " character" if unit == " characters" and (lowest, highest) in ((1, None), (None, 1)) else unit
    limits = {
        (True, True): f"From {lowest} to {highest}{unit}",
        (True, False): f"At least {lowest}{unit}",
        (False, True): f"At most {highest}{unit}",
    }.get((lowest is not None, highest is not None), "")
    wanted = FORMATS_IN_WORDS.get(field.format, "")
    pattern = f"Must match the regular expression {cut(visible(field.pattern), MAX_PATTERN)}" if field.pattern else ""
    return [item for item in (f"{wanted[:1].upper()}{wanted[1:]}", limits, pattern) if item]


def server_of_rule(rule: str) -> str:
    """Return the MCP server if a rule covers all of its tools; empty for any other rule."""
    return rule.removeprefix(PREFIX) if rule.startswith(PREFIX) and "/" not in rule else ""


def is_fixed(grant: GrantOffer, about: JudgedCall) -> bool:
    """Return whether a grant lacks a pattern that the person may change."""
    return grant.rule == about.tool or bool(server_of_rule(grant.rule)) or is_of_key_file(grant.rule, about)


def listed_choices(question: WaitingOnUser) -> str:
    """Return the choices of a question as the person reads them, including the grants on offer; empty if it offers no
    choice.
    """
    subject_call = question.about
    if subject_call is None or not subject_call.later_offers:
        return ", ".join(choice_in_words(choice) for choice in answer_form(question.schema).choices)
    offered = [f"{ALWAYS}: {grant_in_words(offer, subject_call)}" for offer in subject_call.later_offers]
    return "; ".join([*approving_choices(question), *offered, DENY])


def brief_choices(question: WaitingOnUser) -> str:
    """Return a question's choices for its line, without the later calls on offer; their answers are listed elsewhere."""
    if question.about is None or not question.about.grants:
        return listed_choices(question)
    return ", ".join([*approving_choices(question), ALWAYS, DENY])


def approving_choices(question: WaitingOnUser) -> list[str]:
    """Return the choices that approve a call once or as a gate intends; *always* is left to the grants on offer."""
    choices = [choice_in_words(choice) for choice in answer_form(question.schema).choices]
    has_offers = question.about is not None and bool(question.about.grants)
    return [choice for choice in choices if choice != DENY and not (has_offers and choice == ALWAYS)]


def typed_answers(question: WaitingOnUser) -> list[str]:
    """Return the answers that can be typed when asked whether a call or a plan may run; empty for any other question."""
    if question.kind not in ("approval", "plan_review") or DENY not in answer_form(question.schema).choices:
        return []
    about = question.about
    grants = [] if about is None else [typed_always(offer.reach, offer.rule) for offer in about.later_offers]
    return [*approving_choices(question), *grants, f"{DENY}: REASON"]


def author(asked: AskedQuestion) -> str:
    """Return who answered: you, or the function that answers for you."""
    return "Your function" if asked.by == "program" else "You"


def _choices(question: WaitingOnUser) -> str:
    fields = question.schema.get("properties")
    form = ", ".join(f'"{name}": ...' for name in fields) if isinstance(fields, dict) else ""
    choices = brief_choices(question) or (form and f"{{{form}}}")
    return clean(f" ({first_line(choices, MAX_LISTED)})") if choices else ""


def mode_text(words: str) -> str:
    """Return a mode of one or more words with its meaning; if there is no mode, describe the default questions."""
    means = "; ".join(MODES.get(word, "") for word in words.split("+"))
    return "Tools that write, execute or use the network ask you." if words == RULES else f"{words}: {means}"


def rule_lines(run: Run) -> Iterator[str]:
    """Yield the mode of a run, if it has one, and the run's rules."""
    permissions = Permissions.from_log(run.settings, loosens=True)
    if permissions.mode.held:
        yield f"mode {mode_text(permissions.mode.words)}"
    for layer in permissions.layers:
        if layer.flags is not None:
            yield f"permitted: {', '.join(sorted(layer.flags)) or 'nothing that requires a flag'}"
        for rule in layer.rules:
            yield f"{rule.verdict}: {rule.text}"
