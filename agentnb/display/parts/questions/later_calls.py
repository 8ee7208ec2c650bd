"""The part of a call's question that can also allow later calls: which ones, how far that reaches, and an explanation."""

from __future__ import annotations

from pathlib import Path

from agentnb.core.questions import BY_AGENT, GrantOffer, JudgedCall, WaitingOnUser, rule_parts
from agentnb.core.run.approvals import ALWAYS
from agentnb.display.markup import NOTHING, Html, tag, words
from agentnb.display.texts.question_labels import (
    REACHES,
    is_fixed,
    is_of_key_file,
    later_calls,
    memory_in_words,
    server_of_rule,
)
from agentnb.display.texts.visible_text import visible, visible_name
from agentnb.policies.permissions.path_rules import with_tilde

MAX_RULE = 200
"""Maximum characters of a pattern in the list; the sentence below shows all of it."""
OTHER = ""
"""The value of the choice for typing a pattern."""
_LIMITS = "options that start a program or write a file"


def later_calls_html(question: WaitingOnUser, note: Html) -> Html:
    """Return the form that approves a call and allows later ones, with a sentence for each choice; empty if there are no
    grants.

    ``note``: a note about the parts of the call that were not opened.
    """
    about = question.about
    if about is None or not about.later_offers:
        return NOTHING
    grants, pattern = [*about.later_offers], next((grant for grant in about.grants if not is_fixed(grant, about)), None)
    if pattern is not None:
        grants += [GrantOffer(OTHER, grant.reach) for grant in about.grants if grant.rule == pattern.rule]
    choices = {grant.rule: _choice(grant, about) for grant in reversed(grants)}
    calls = [tag("option", "", choices[rule], value=rule) for rule in dict.fromkeys(grant.rule for grant in grants)]
    reaches = [tag("option", "", REACHES[reach], value=reach) for reach in dict.fromkeys(grant.reach for grant in grants)]
    sentences = [
        tag(
            "div",
            "",
            allowed_in_words(grant, about),
            hidden=grant is not grants[0],
            data_calls=grant.rule,
            data_reach=grant.reach,
        )
        for grant in grants
    ]
    row = [
        tag("select", "field", *calls, data_field=True, **_names(question, "calls", "Later calls to allow")),
        _pattern(question, pattern),
        tag("select", "field", *reaches, data_field=True, **_names(question, "reach", "How long")),
        tag("button", "button", "Approve and allow", note, type="submit"),
    ]
    meaning = tag("div", "quiet", *sentences, aria_live="polite")
    error = tag("div", "field-error", role="alert")
    return tag("form", "pattern", tag("div", "buttons", *row), meaning, error, data_do=ALWAYS, data_id=question.id)


def _pattern(question: WaitingOnUser, pattern: GrantOffer | None) -> Html:
    """Return the field for typing a pattern, shown when that choice is selected; empty if there is no pattern."""
    if pattern is None:
        return NOTHING
    about = _names(question, "rule", "Pattern (* is any text)")
    return tag("input", "field form-code", type="text", value=pattern.rule, hidden=True, autocomplete="off", **about)


def _names(question: WaitingOnUser, name: str, label: str) -> dict[str, str]:
    return {"name_": name, "aria_label": label, "title": label, "data_key": f"{name}:{question.id}"}


def _choice(grant: GrantOffer, about: JudgedCall) -> Html:
    if grant.reach == BY_AGENT:
        return words(f"{visible_name(about.agent)}: '{visible(grant.rule)}'", MAX_RULE)
    return words("".join(later_calls(grant.rule, about)) if grant.rule != OTHER else "Another pattern…", MAX_RULE)


def allowed_in_words(grant: GrantOffer, about: JudgedCall) -> str:
    """Return a sentence on what a grant allows without asking."""
    if grant.reach == BY_AGENT:
        agent = visible_name(about.agent)
        return f"'{visible(grant.rule)}', {memory_in_words(about)}. {agent} decides which later calls this allows."
    tool, server = visible_name(about.tool), server_of_rule(grant.rule)
    subject = visible(rule_parts(grant.rule)[1])
    limits = f"; {_LIMITS} only as written in the pattern" if about.command else ""
    cases: tuple[tuple[bool, str], ...] = (
        (grant.rule == OTHER, f"calls of {tool} that match your pattern{limits}"),
        (bool(server), f"every tool of the MCP server {visible_name(server)}, until the server or the tool changes"),
        (not subject, f"every call to {tool}, whatever its arguments"),
        (bool(about.command) and subject.endswith(" *"), f"{subject[:-2]} followed by any words except {_LIMITS}"),
        (bool(about.command), f"only this command: {subject}"),
        (is_of_key_file(grant.rule, about), f"{tool} with {subject} only (may contain keys)"),
        (subject.endswith("/**"), f"{tool} with everything below {subject[:-2]}"),
        (subject.endswith("/*"), f"{tool} with the files in {subject[:-1]}, not in its subfolders"),
    )
    calls = next((words for holds, words in cases if holds), f"{tool} with {subject} only")
    folder = visible(with_tilde(Path(about.folder)))
    runs = {
        "session": "in all runs until the kernel ends",
        "project": f"in all runs in {folder}, saved until you withdraw it",
    }.get(grant.reach, "in this run")
    return f"Allowed {runs}: {calls}."
