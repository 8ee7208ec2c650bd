"""Grants from outside a run (from its session or its parent runs, or saved), copied into its log, where gates read them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from agentnb.core.log.events import Warned
from agentnb.core.log.work_events import GrantGiven, GrantWithdrawn
from agentnb.core.questions import BY_AGENT, REACHES, Answerer, GrantReach, JudgedCall, WaitingOnUser
from agentnb.core.run.approvals import APPROVE, given_grant
from agentnb.errors import SettingsError
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.questions.model_code import as_code, check_person, giver
from agentnb.runtime.questions.saved_rules import SavedRules, may_save, save, saved_rules


class SessionGrant(NamedTuple):
    """A grant with the fields of `GrantGiven`."""

    tool: str
    rule: str = ""
    by: str = "person"
    server_identity: str = ""
    tool_identity: str = ""
    arguments: str = ""


SAVED_FIELDS = [name for name in SessionGrant._fields if name != "arguments"]


class SessionGrants:
    """Grants that hold in all runs of a session. Thread-safe."""

    def __init__(self, reaches: Sequence[GrantReach] = REACHES) -> None:
        """``reaches``: the reaches that questions offer."""
        self.reaches = reaches
        self._given: dict[str, SessionGrant] = {}
        """Grants, by id."""
        self._begun_in: dict[str, bool] = {}
        """Folders in which runs have begun, and whether their saved rules have been shown."""

    def begin_in(self, work_dir: Path) -> str:
        """Note that a run begins in a working folder, and return the resolved folder."""
        folder = os.path.realpath(work_dir)
        self._begun_in.setdefault(folder, False)
        return folder

    def new_saved_rules(self) -> Iterator[tuple[str, SavedRules]]:
        """Yield each folder in which runs have begun since the last call, with its saved rules, if it has any."""
        for folder in [folder for folder, is_shown in [*self._begun_in.items()] if not is_shown]:
            self._begun_in[folder] = True
            if any(found := saved_rules(folder)):
                yield folder, found

    def give(self, tool: str, by: str = "person", *, rule: str = "") -> str:
        """Allow a tool's calls, or only those that match ``rule``, in live runs too. Returns the id of the grant.

        Raises `SettingsError` if called by a model's code.
        """
        check_person("Allowing calls", is_lasting=True)
        return self.take(SessionGrant(tool, rule, giver() or by))

    def take(self, grant: SessionGrant) -> str:
        """Store a grant given in an answer, and return its id."""
        grant_id = f"session-{uuid4().hex[:12]}"  # unique across sessions: logs keep the grants of past sessions
        self._given[grant_id] = grant
        return grant_id

    def withdraw(self, grant_id: str) -> None:
        """Withdraw a grant: from the next call on, the tool needs approval again. No-op for a grant that is not in force."""
        self._given.pop(grant_id, None)

    def in_force(self) -> Iterator[dict[str, str]]:
        """Yield the event fields of each grant."""
        for grant_id, grant in [*self._given.items()]:
            yield {"grant_id": grant_id, "reach": "session", **grant._asdict()}


class ReachingGrants:
    """Grants from outside a run that apply in it."""

    def __init__(
        self, log: EventLog, around: ReachingGrants | None, session: SessionGrants | None, work_dir: Path | None = None
    ) -> None:
        """``around``: grants that reach the parent run; ``work_dir``: the folder whose saved rules apply in a session's run."""
        self._log = log
        self._around = around
        self._session = session
        self.folder = "" if session is None or work_dir is None else session.begin_in(work_dir)
        """The working folder, resolved; empty if there is no session."""
        self._taken_back: tuple[str, ...] = ()

    @property
    def reaches(self) -> tuple[GrantReach, ...]:
        """The reaches of grants that can be remembered."""
        known = ("run",) if self._session is None else self._session.reaches
        return tuple(reach for reach in known if reach != "project" or (self.folder and may_save(self.folder)))

    def take(self, grant: SessionGrant, reach: GrantReach, about: JudgedCall) -> str:
        """Store a grant given by an answer about a call, and return its id; empty if it holds in this run only."""
        if reach == "session" and self._session is not None and reach in self.reaches:
            return self._session.take(grant)
        return self._save(grant, about) if reach == "project" else ""

    def _save(self, grant: SessionGrant, about: JudgedCall) -> str:
        """Save a grant and return its id, or warn why it holds in this run only."""
        fields = {name: getattr(grant, name) for name in SAVED_FIELDS}
        try:
            if grant.by != "person":
                raise OSError("only your own answer saves a rule")
            if about.folder != self.folder or "project" not in self.reaches:
                raise OSError(f"this run saves no rules for {about.folder}")
            with as_code(None):  # the answer was the person's, even to a run started by a model's code
                return save(self.folder, is_path=not about.command, **fields)
        except (OSError, ValueError, SettingsError) as error:
            problem = getattr(error, "strerror", None) or str(error)
        self._log.emit(Warned, message=f"{grant.rule} was not saved: {problem}. It applies in this run.")
        return ""

    def update(self) -> bool:
        """Log grants from outside that were given or withdrawn since the last call.

        Returns whether there were any.
        """
        reaching = {fields["grant_id"]: fields for fields in self._from_outside()}
        logged = self._log.run.grants
        over = [
            grant.grant_id
            for grant in logged
            if grant.grant_id not in reaching and (is_copy(grant) or grant.grant_id in self._taken_back)
        ]
        logged_ids = {grant.grant_id for grant in logged}
        new = [fields for grant_id, fields in reaching.items() if grant_id not in logged_ids]
        for grant_id in over:
            self._log.emit(GrantWithdrawn, grant_id=grant_id)
        for fields in new:
            self._log.emit(GrantGiven, **fields)
        return bool(over or new)

    def withdraw(self, grant_id: str) -> None:
        """Withdraw a grant given in this run, from any thread: `update` logs the withdrawal before the next call is judged."""
        self._taken_back = (*self._taken_back, grant_id)

    def _from_outside(self) -> Iterable[dict[str, str]]:
        if self._session is not None:
            yield from self._session.in_force()
            for grant_id, saved in saved_rules(self.folder).rules.items() if self.folder else ():
                yield {"grant_id": grant_id, "reach": "session", **{name: getattr(saved, name) for name in SAVED_FIELDS}}
        if self._around is not None:
            yield from self._around._for_nested_runs(is_direct=True)

    def _for_nested_runs(self, *, is_direct: bool = False) -> Iterator[dict[str, str]]:
        """Yield the grants given in this run and its parent runs, except those for single calls."""
        run = self._log.run
        for grant in run.grants:
            if not is_copy(grant) and (is_direct or not grant.arguments):
                fields = {field: getattr(grant, field) for field in SessionGrant._fields}
                yield {"grant_id": grant.grant_id, "given_in": run.id, **fields}
        if self._around is not None:
            yield from self._around._for_nested_runs()


def check_saving(question: WaitingOnUser | None, answer: object, by: Answerer = "person") -> None:
    """Raise `SettingsError` if a model's code (even after its run has ended) saves a rule with this answer, or if anyone but
    the person has an external agent remember the answer.
    """
    grant = None if question is None else given_grant(question, answer)
    if grant is not None and grant.reach in ("project", BY_AGENT):
        check_person("Saving a rule", is_lasting=True)
    if grant is not None and grant.reach == BY_AGENT and by != "person":
        raise SettingsError(f"An answer that an agent remembers is reserved for the person: {grant.rule}", f"Return {APPROVE}")


def is_copy(grant: GrantGiven) -> bool:
    """Return whether a grant was copied into the log from a session or a parent run."""
    return grant.reach == "session" or bool(grant.given_in)
