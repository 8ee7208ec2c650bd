"""Grants that reach a run from outside, from its session or the runs around it: copied into its log, where gates read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple
from uuid import uuid4

from agentnb.core.log.work_events import GrantGiven, GrantWithdrawn
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.questions.model_code import check_person, giver


class SessionGrant(NamedTuple):
    """A grant, as `GrantGiven` has it."""

    tool: str
    rule: str = ""
    by: str = "person"
    server_identity: str = ""
    tool_identity: str = ""
    arguments: str = ""


class SessionGrants:
    """The calls that are allowed in all runs of a session. Thread-safe."""

    def __init__(self) -> None:
        self._given: dict[str, SessionGrant] = {}
        """The grants by their ids."""

    def give(self, tool: str, by: str = "person", *, rule: str = "") -> str:
        """Allow the calls of a tool that fit a rule, else all, also in runs that are live, and return the id of the grant.

        Raises `SettingsError` in the code of a model.
        """
        check_person("Allowing calls", is_lasting=True)
        return self.take(SessionGrant(tool, rule, giver() or by))

    def take(self, grant: SessionGrant) -> str:
        """Keep a grant that the answer to a question gives, and return its id."""
        grant_id = f"session-{uuid4().hex[:12]}"  # no other session has it: logs keep the grants of sessions that are over
        self._given[grant_id] = grant
        return grant_id

    def withdraw(self, grant_id: str) -> None:
        """Take a grant back: from the next call on, the tool is asked about again. No-op for one that is not in force."""
        self._given.pop(grant_id, None)

    def in_force(self) -> Iterator[dict[str, str]]:
        """Yield the fields of the event of each grant."""
        for grant_id, grant in [*self._given.items()]:
            yield {"grant_id": grant_id, "reach": "session", **grant._asdict()}


class ReachingGrants:
    """The grants that reach one run."""

    def __init__(self, log: EventLog, around: ReachingGrants | None, session: SessionGrants | None) -> None:
        """``around``: those that reach the run around it."""
        self._log = log
        self._around = around
        self._session = session
        self._taken_back: tuple[str, ...] = ()

    @property
    def has_session(self) -> bool:
        """Whether there is a session that can remember a grant."""
        return self._session is not None

    def update(self) -> bool:
        """Log the grants that were given outside since the last call, and the end of those that were taken back there.

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
        """Take back a grant that was given in this run, from any thread: `update` logs it, before the next call is judged."""
        self._taken_back = (*self._taken_back, grant_id)

    def _from_outside(self) -> Iterable[dict[str, str]]:
        if self._session is not None:
            yield from self._session.in_force()
        if self._around is not None:
            yield from self._around._for_nested_runs(is_direct=True)

    def _for_nested_runs(self, *, is_direct: bool = False) -> Iterator[dict[str, str]]:
        """Yield the grants that were given in this run, and in those around it, without those of single calls."""
        run = self._log.run
        for grant in run.grants:
            if not is_copy(grant) and (is_direct or not grant.arguments):
                fields = {field: getattr(grant, field) for field in SessionGrant._fields}
                yield {"grant_id": grant.grant_id, "given_in": run.id, **fields}
        if self._around is not None:
            yield from self._around._for_nested_runs()


def is_copy(grant: GrantGiven) -> bool:
    """Return whether a grant was given for a session or in a run around, and copied into the log."""
    return grant.reach == "session" or bool(grant.given_in)
