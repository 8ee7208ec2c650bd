"""``%agent permissions``: lists the rules of live runs and what was allowed always, and takes it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from agentnb.core.run.approvals import RULES
from agentnb.display.texts.labels import SHORT_ID, clean
from agentnb.display.texts.question_labels import REACHES, mode_text, rule_lines
from agentnb.errors import SettingsError, near
from agentnb.session.session import Session
from agentnb.settings import agent_mode

VERBS = ("allow", "withdraw")


class AlwaysAllowed(NamedTuple):
    """Calls that were allowed always."""

    rule: str
    reach: str
    """How far it reaches, in words."""
    withdraw: Callable[[], None]


def permissions_command(session: Session, rest: str) -> str:
    """Make the change that the words ask for, and return the list as it is then."""
    verb, _, rule = rest.partition(" ")
    rule = rule.strip().strip("\"'")
    if verb and verb not in VERBS:
        raise SettingsError(f"%agent permissions has no command {verb!r}", near(verb, VERBS))
    if verb and not rule:
        raise SettingsError(f"%agent permissions {verb} needs a rule", f"Such as: %agent permissions {verb} bash(git status *)")
    if verb == "allow":
        session.allow_always(rule)
    if verb == "withdraw":
        _withdraw(session, rule)
    return "\n".join(_lines(session))


def always_allowed(session: Session) -> list[AlwaysAllowed]:
    """Return what was allowed always: in the session, then in its live runs."""
    found = [
        AlwaysAllowed(given["rule"] or given["tool"], REACHES["session"], partial(session.grants.withdraw, given["grant_id"]))
        for given in session.grants.in_force()
    ]
    for live in session.running():
        for grant in live.run.grants:
            if grant.reach == "run" and not grant.given_in:
                reach = f"in run {live.run_id[-SHORT_ID:]}"
                found.append(AlwaysAllowed(grant.rule or grant.tool, reach, partial(live.withdraw, grant.grant_id)))
    return found


def _withdraw(session: Session, rule: str) -> None:
    allowed = always_allowed(session)
    chosen = [one for one in allowed if one.rule == rule]
    if not chosen and rule.isdecimal() and 1 <= int(rule) <= len(allowed):
        chosen = [allowed[int(rule) - 1]]
    if not chosen:
        raise SettingsError(f"{rule!r} is not allowed always", near(rule, [one.rule for one in allowed]))
    for one in chosen:
        one.withdraw()


def _lines(session: Session) -> Iterator[str]:
    given = session.defaults["approve"]
    source = "%agent defaults approve=" if given else "AGENT_MODE" if agent_mode() else ""
    yield f"Mode: {mode_text(given or agent_mode() or RULES)}{f' ({source})' if source else ''}"
    for live in session.running():
        for line in rule_lines(live.run):
            yield f"Run {live.run_id[-SHORT_ID:]}: {clean(line)}"
    allowed = always_allowed(session)
    yield "Allowed always:" if allowed else "Nothing is allowed always."
    for number, one in enumerate(allowed, 1):
        yield f"  {number}  {clean(one.rule)}, {one.reach}"
    if allowed:
        yield "To take one back: %agent permissions withdraw NUMBER"
