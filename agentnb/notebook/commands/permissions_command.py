"""``%agent permissions``: lists grants and the rules of live runs, and withdraws grants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from os.path import realpath
from typing import Any, NamedTuple

from agentnb.core.run.approvals import RULES
from agentnb.display.texts.labels import SHORT_ID, clean
from agentnb.display.texts.question_labels import REACHES, mode_text, rule_lines, saved_reach, saved_rules_lines
from agentnb.errors import SettingsError, suggest_names
from agentnb.notebook.lookup.dotted_names import public_variables
from agentnb.notebook.variable_names import tool_names
from agentnb.runtime.host.run_options import folder_of
from agentnb.runtime.questions.model_code import BETWEEN_CELLS
from agentnb.runtime.questions.saved_rules import SavedRules, saved_rules, withdraw_saved
from agentnb.session.session import Session
from agentnb.settings import agent_mode

VERBS = ("allow", "withdraw")
ADD = "To allow calls in this session: %agent permissions allow RULE"
SAVE = "A rule can be saved while a call asks you: %agent answer always in project: RULE"
NO_COMMAND = 'Write allow or withdraw. To deny or ask, give the run a rule: %%agent --rule "bash=deny"'
_MADE = {BETWEEN_CELLS: ", granted while none of your cells was running"}
"""The origin of a grant that was not made in answer to a question."""


class AlwaysAllowed(NamedTuple):
    """A grant that allows calls."""

    rule: str
    reach: str
    """Its scope, as text."""
    withdraw: Callable[[], None]
    folder: str = ""
    """The working folder in which it holds, if it is saved."""


def permissions_command(session: Session, rest: str, variables: Mapping[str, Any]) -> str:
    """Make the requested change, and return the updated list. ``variables``: the notebook's variables."""
    verb, _, rule = rest.partition(" ")
    rule = rule.strip().strip("\"'")
    if verb and verb not in VERBS:
        raise SettingsError(f"%agent permissions has no command {verb!r}", NO_COMMAND)
    if verb and not rule:
        raise SettingsError(
            f"%agent permissions {verb} needs a rule", f"For example: %agent permissions {verb} bash(git status *)"
        )
    if verb == "allow":
        values = [value for _, value in public_variables(variables) if not isinstance(value, str)]
        session.allow_always(rule, (*tool_names(variables), *values))
    done = [*_withdraw(session, rule)] if verb == "withdraw" else []
    return "\n".join([*done, *_lines(session)])


def always_allowed(session: Session, saved: SavedRules) -> list[AlwaysAllowed]:
    """Return the grants of the session, of live runs and of runs that may be resumed, then ``saved`` rules, the latest last."""
    allowed = [
        AlwaysAllowed(
            grant["rule"] or grant["tool"],
            f"{REACHES['session']}{_MADE.get(grant['by'], '')}",
            partial(session.grants.withdraw, grant["grant_id"]),
        )
        for grant in session.grants.in_force()
    ]
    live = [(live_run.run_id, grant, live_run.withdraw) for live_run in session.running() for grant in live_run.grants]
    live += [(run_id, grant, partial(session.withdraw_stored, run_id)) for run_id, grant in session.stored_grants()]
    for run_id, grant, withdraw in live:
        restriction = f" with {grant.arguments}" if grant.arguments else ""
        reach = f"in run {run_id[-SHORT_ID:]}{_MADE.get(grant.by, '')}"
        allowed.append(AlwaysAllowed(f"{grant.rule or grant.tool}{restriction}", reach, partial(withdraw, grant.grant_id)))
    for grant_id, rule in sorted(saved.rules.items(), key=lambda item: item[1].saved_at.isoformat()):
        allowed.append(AlwaysAllowed(rule.rule, saved_reach(rule), partial(withdraw_saved, grant_id), rule.folder))
    return allowed


def _withdraw(session: Session, rule: str) -> Iterator[str]:
    """Withdraw the grants that match a rule or a number in the list, and yield what was withdrawn."""
    allowed = always_allowed(session, saved_rules())
    chosen = [item for item in allowed if item.rule == rule]
    if rule.isdecimal() and not chosen:
        if not 1 <= int(rule) <= len(allowed):
            raise SettingsError(f"{rule} is not in the list", "%agent permissions shows the list")
        chosen = [allowed[int(rule) - 1]]
    if not chosen:
        raise SettingsError(f"{rule!r} is not an allowed rule", suggest_names(rule, [item.rule for item in allowed]))
    here = [item for item in chosen if item.folder in ("", realpath(folder_of(None)))]
    if not here and len(chosen) > 1:
        raise SettingsError(f"{rule} is saved for several folders", "%agent permissions withdraw NUMBER, as in the list")
    for item in here or chosen:
        item.withdraw()
        yield f"Withdrawn: {clean(item.rule)}, {item.reach}"


def _lines(session: Session) -> Iterator[str]:
    mode = session.defaults["approve"]
    source = "%agent defaults approve=" if mode else "AGENT_MODE" if agent_mode() else ""
    yield f"Mode: {mode_text(mode or agent_mode())} ({source})" if source else mode_text(RULES)
    for live in session.running():
        for line in rule_lines(live.run):
            yield f"Run {live.run_id[-SHORT_ID:]}: {clean(line)}"
    saved = saved_rules()
    allowed = always_allowed(session, saved)
    yield "Allowed always:" if allowed else "Allowed always: nothing yet."
    for number, item in enumerate(allowed, 1):
        yield f"  {number}  {clean(item.rule)}, {item.reach}"
    if allowed:
        yield "To withdraw one: %agent permissions withdraw NUMBER"
    yield f"{ADD}. {SAVE}"
    yield from saved_rules_lines("", SavedRules({}, saved.refused), "")
