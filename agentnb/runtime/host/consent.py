"""Consent by a log: whether its approvals, answers and settings count when its run is resumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentnb.advice import TrustLog
from agentnb.core.log.events import AnyEvent, Consent, RunRecovered
from agentnb.core.run.approvals import ASK, AUTO
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.policies.gates.approval_mode import SETTING, ApprovalMode
from agentnb.runtime.host.run_options import RunOptions


def takes_log(run: Run, options: RunOptions) -> bool:
    """Return whether the log of a resumed run counts: the person's agentnb wrote it, or ``trust_log`` is True.

    Raises `SettingsError` if it is from elsewhere and ``trust_log`` is not given.
    """
    if run.gives_consent:
        return True
    if options.trust_log is None:
        what = f"The log of run {run.id} was not written by your agentnb, or was changed since: look at it before you resume it"
        taken, refused = TrustLog(True, lead="To take its answers as yours"), TrustLog(False, lead="To be asked again")
        raise SettingsError(what, (taken, refused))
    return options.trust_log


def consent_to(run: Run, options: RunOptions) -> Consent:
    """Return the person's decision about the log, for `RunRecovered`; empty for a log of their own."""
    if run.gives_consent:
        return ""
    return "taken" if takes_log(run, options) else "refused"


def mode_after(logged: str | None, *, counts: bool) -> str | None:
    """Return the approval mode of a run that starts from a log and is given none: at least ``ask`` if the log does not count.

    ``logged``: the mode that it would take from that log; None for none.
    """
    return logged if counts else ApprovalMode.of(logged or AUTO).within(ApprovalMode.of(ASK)).words


def with_mode_of(of: Run, options: RunOptions) -> RunOptions:
    """Return the options of a run that begins with the outputs of another: they name a mode, or that of the other holds.

    Raises `SettingsError` if the other's log is from elsewhere and the options do not say whether it counts.
    """
    if options.approval_mode is not None:
        return options
    return replace(options, approval_mode=mode_after(of.settings.get(SETTING), counts=takes_log(of, options)))


def with_mode_to_continue(options: RunOptions) -> RunOptions:
    """Return the options of a run that continues a conversation, with the approval mode that this needs."""
    before = options.continue_from
    if before is None or options.approval_mode is not None:
        return options
    return replace(options, approval_mode=mode_after(None, counts=before.gives_consent or bool(options.trust_log)))


def since_refusal(events: Sequence[AnyEvent]) -> Sequence[AnyEvent]:
    """Return the events after the last one with which the person let nothing count of a log from elsewhere; all without one."""
    refused = [place for place, event in enumerate(events) if isinstance(event, RunRecovered) and event.consent == "refused"]
    return events[refused[-1] :] if refused and refused[-1] else events
