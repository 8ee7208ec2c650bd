"""Consent to a log: whether its approvals, answers and settings count when its run is resumed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce

from agentnb.advice import Advised, TrustLog
from agentnb.core.log.events import AnyEvent, Consent, RunRecovered
from agentnb.core.run.approvals import ASK
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.policies.permissions.approval_mode import ApprovalMode
from agentnb.policies.permissions.permission_rules import NO_RULES, RuleList
from agentnb.policies.permissions.run_permissions import Permissions
from agentnb.runtime.host.run_options import RunOptions

LOST_ADVICE = TrustLog(True, lead="Set the permissions again, or trust the whole log")
_begun_here: set[str] = set()
"""Ids of runs that began in this process with loosened permissions."""


def takes_log(run: Run, options: RunOptions) -> bool:
    """Return whether the log of a resumed run counts: it does if the person's agentnb wrote it, or if ``trust_log``
    is True.

    Raises `SettingsError` if it is from elsewhere and ``trust_log`` is None.
    """
    if run.gives_consent:
        return True
    if options.trust_log is None:
        why = f"The log of run {run.id} was not written by your agentnb, or has been edited since: review it before resuming"
        accept, refuse = (
            TrustLog(True, lead="To accept its answers as yours"),
            TrustLog(False, lead="To be asked again instead"),
        )
        raise SettingsError(why, (accept, refuse))
    return options.trust_log


def consent_to(run: Run, options: RunOptions) -> Consent:
    """Return the person's decision about the log, for `RunRecovered`; empty if the log is their own."""
    if run.gives_consent:
        return ""
    return "taken" if takes_log(run, options) else "refused"


def loosens(run: Run, options: RunOptions) -> bool:
    """Return whether a log's allowances count: they do if the person set them in this process, or trusts the complete log."""
    return bool(options.trust_log) or (run.gives_consent and run.id in _begun_here)


def note_begun(run_id: str) -> None:
    """Record a run that begins in this process with loosened permissions: they hold when it is resumed here."""
    _begun_here.add(run_id)


def logged_permissions(run: Run, options: RunOptions, *, counts: bool, whole: bool = False) -> Permissions:
    """Return the permissions logged by a run, for use in a run that starts from it. ``counts``: whether the log
    counts.

    ``whole``: whether its allowances count too, whoever set them.
    """
    return Permissions.from_log(run.settings, loosens=whole or (counts and loosens(run, options)))


def warning_of_lost(run: Run, options: RunOptions) -> Iterator[tuple[str, Advised]]:
    """Yield a warning about logged allowances that do not hold in this process, unless the options set new permissions."""
    logged = Permissions.from_log(run.settings, loosens=True)
    if not logged.loosen or loosens(run, options) or options.approval_mode is not None or options.permissions:
        return
    allowed = [rule.text for layer in logged.layers[:1] for rule in layer.rules if rule.verdict == "allow"]
    lost = ", ".join([*(["the mode auto"] if logged.mode.is_auto else []), *allowed])
    yield f"The options of this run allowed {lost}. This applies only in the process that set it", LOST_ADVICE


def with_permissions_of(of: Run, options: RunOptions, *, counts: bool, whole: bool = False) -> RunOptions:
    """Return the options of a run that begins from another: the other run's rules apply, and so does its mode unless
    the options set one.

    ``counts`` and ``whole`` as for `logged_permissions`.
    """
    logged = logged_permissions(of, options, counts=counts, whole=whole)
    first = RuleList(logged.confirms).as_checked.then(options.permissions or NO_RULES)
    rules = reduce(RuleList.then, logged.layers, first) or None
    if not counts:
        return replace(options, permissions=rules, least_mode=least_mode(logged))
    mode = options.approval_mode or (logged.mode.words if logged.mode.held else None)
    return replace(options, approval_mode=mode, permissions=rules)


def least_mode(found: Permissions) -> str:
    """Return the minimum mode of a run that begins from a log that does not count."""
    return found.mode.within(ApprovalMode.of(ASK)).words


def with_mode_to_continue(options: RunOptions) -> RunOptions:
    """Return the options of a run that continues a conversation, with the mode that it needs."""
    before = options.continue_from
    if before is None or options.approval_mode is not None or before.gives_consent or options.trust_log:
        return options
    return replace(options, least_mode=ASK)


def since_refusal(events: Sequence[AnyEvent]) -> Sequence[AnyEvent]:
    """Return the events after the person last rejected the content of a log from elsewhere; all events if there was no
    rejection.
    """
    refusals = [index for index, event in enumerate(events) if isinstance(event, RunRecovered) and event.consent == "refused"]
    return events[refusals[-1] :] if refusals and refusals[-1] else events
