"""``%agent permissions``: lists the rules of live runs and what was allowed always, and takes it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from agentnb.core.run.approvals import RULES
from agentnb.display.texts.labels import SHORT_ID, clean
from agentnb.display.texts.question_labels import REACHES, mode_text, rule_lines
from agentnb.errors import SettingsError, near
from agentnb.notebook.names import tool_names
from agentnb.runtime.questions.model_code import BETWEEN_CELLS
from agentnb.session.session import Session
from agentnb.settings import agent_mode

VERBS = ("allow", "withdraw")
_MADE = {BETWEEN_CELLS: ", made while none of your cells ran"}
"""Words on who gave a grant, where it was not the person."""


class AlwaysAllowed(NamedTuple):
    """Calls that were allowed always."""

    rule: str
    reach: str
    """How far it reaches, in words."""
    withdraw: Callable[[], None]


def permissions_command(session: Session, rest: str, variables: Mapping[str, Any]) -> str:
    """Make the change that the words ask for, and return the list as it is then. ``variables``: those of the notebook."""
    verb, _, rule = rest.partition(" ")
    rule = rule.strip().strip("\"'")
    if verb and verb not in VERBS:
        raise SettingsError(f"%agent permissions has no command {verb!r}", near(verb, VERBS))
    if verb and not rule:
        raise SettingsError(f"%agent permissions {verb} needs a rule", f"Such as: %agent permissions {verb} bash(git status *)")
    if verb == "allow":
        values = [value for name, value in variables.items() if not (name.startswith("_") or isinstance(value, str))]
        session.allow_always(rule, (*tool_names(variables), *values))
    if verb == "withdraw":
        _withdraw(session, rule)
    return "\n".join(_lines(session))


def always_allowed(session: Session) -> list[AlwaysAllowed]:
    """Return what was allowed always: in the session, in its live runs, then in runs that may be resumed."""
    found = [
        AlwaysAllowed(
            given["rule"] or given["tool"],
            f"{REACHES['session']}{_MADE.get(given['by'], '')}",
            partial(session.grants.withdraw, given["grant_id"]),
        )
        for given in session.grants.in_force()
    ]
    live = [(one.run_id, grant, one.withdraw) for one in session.running() for grant in one.grants]
    live += [(run_id, grant, partial(session.withdraw_stored, run_id)) for run_id, grant in session.stored_grants()]
    for run_id, grant, withdraw in live:
        only = f" with {grant.arguments}" if grant.arguments else ""
        reach = f"in run {run_id[-SHORT_ID:]}{_MADE.get(grant.by, '')}"
        found.append(AlwaysAllowed(f"{grant.rule or grant.tool}{only}", reach, partial(withdraw, grant.grant_id)))
    return found


def _withdraw(session: Session, rule: str) -> None:
    allowed = always_allowed(session)
    chosen = [one for one in allowed if one.rule == rule]
    if rule.isdecimal() and not chosen:
        if not 1 <= int(rule) <= len(allowed):
            raise SettingsError(f"There is no {rule} in the list", "%agent permissions shows it")
        chosen = [allowed[int(rule) - 1]]
    if not chosen:
        raise SettingsError(f"There is no allowed rule {rule!r}", near(rule, [one.rule for one in allowed]))
    for one in chosen:
        one.withdraw()


def _lines(session: Session) -> Iterator[str]:
    given = session.defaults["approve"]
    source = "%agent defaults approve=" if given else "AGENT_MODE" if agent_mode() else ""
    yield f"Mode: {mode_text(given or agent_mode())} ({source})" if source else mode_text(RULES)
    for live in session.running():
        for line in rule_lines(live.run):
            yield f"Run {live.run_id[-SHORT_ID:]}: {clean(line)}"
    allowed = always_allowed(session)
    yield "Allowed always:" if allowed else "Nothing is allowed always."
    for number, one in enumerate(allowed, 1):
        yield f"  {number}  {clean(one.rule)}, {one.reach}"
    if allowed:
        yield "To take one back: %agent permissions withdraw NUMBER"
