"""Consent by a log: whether what it says was approved, answered, allowed and set counts when its run is resumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentnb.core.approvals import ASK, AUTO
from agentnb.core.events import AnyEvent, Consent, RunRecovered
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.policies.gates.approval_mode import SETTING, ApprovalMode
from agentnb.runtime.run_options import RunOptions


def takes_log(run: Run, options: RunOptions) -> bool:
    """Return whether the log of a run that is resumed counts: the person's agentnb wrote it, or the options say so.

    Raises `SettingsError` if it is from elsewhere and the options say nothing.
    """
    if run.gives_consent:
        return True
    if options.trust_log is None:
        what = f"The log of run {run.id} was not written by your agentnb, or was changed since: look at it before you resume it"
        hint = "To take what it says as yours: trust_log=True, --trust-log. To be asked again: trust_log=False, --no-trust-log"
        raise SettingsError(what, hint)
    return options.trust_log


def consent_to(run: Run, options: RunOptions) -> Consent:
    """Return the word with which the log says it; empty for a log of the person's own."""
    if run.gives_consent:
        return ""
    return "taken" if takes_log(run, options) else "refused"


def with_mode_of(of: Run, options: RunOptions) -> RunOptions:
    """Return the options of a run that begins with the outputs of another: they name a mode, or that of the other holds.

    If the other's log does not count, the mode is at least ``ask``. Raises `SettingsError` if that is not said.
    """
    if options.approval_mode is not None:
        return options
    logged = of.settings.get(SETTING)
    if not takes_log(of, options):
        logged = ApprovalMode.of(logged or AUTO).within(ApprovalMode.of(ASK)).words
    return replace(options, approval_mode=logged)


def counting(events: Sequence[AnyEvent]) -> Sequence[AnyEvent]:
    """Return the events after the last one with which the person let nothing count of a log from elsewhere; all without one."""
    refused = [place for place, event in enumerate(events) if isinstance(event, RunRecovered) and event.consent == "refused"]
    return events[refused[-1] :] if refused and refused[-1] else events
