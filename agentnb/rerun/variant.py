"""A variant for a replay: guidance, policy and limits, as the functions that the loop calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs

from agentnb import settings
from agentnb.acp.external_agent import EndWithTurn
from agentnb.agent.detection import NAME as DETECTION
from agentnb.agent.detection import detection
from agentnb.agent.extension import Extension, extend_bundle, logged_extensions
from agentnb.agent.from_log import logged_guidance, logged_policy
from agentnb.agent.output import Output
from agentnb.core.log.events import AnyEvent, RunStarted
from agentnb.detect.presets import names
from agentnb.detect.run import Run
from agentnb.detect.run_detectors import Detectors, detect_name
from agentnb.errors import SettingsError, suggest_names
from agentnb.guidance.draws import RandomGuidance, without_draws
from agentnb.guidance.sets import MATRIX, GuidanceSet, find_set
from agentnb.policies.bundle import PolicyBundle
from agentnb.policies.policy_sets import OWN_POLICY, Matrix, PolicySet, find_policy, in_workflow_mode, rules_of, settings_of
from agentnb.policies.run_limits import LIMITS, Limits
from agentnb.rerun.recorded_findings import recorded_findings, without_asking
from agentnb.runtime.runs.gate_names import names_of_gates

NOT_COUNTED = ("max_seconds", "budget")
"""Limits that a replay cannot count: time and money are as recorded, although different texts would have cost
different amounts.
"""


@dataclass(frozen=True, slots=True)
class Variant:
    """The settings of a replay."""

    words: GuidanceSet
    policy: PolicySet
    limits: Mapping[str, Any]
    """The limits in effect, by name."""
    bundle: PolicyBundle
    extensions: tuple[Extension, ...]
    """Responses to the findings of its detectors; empty if it has none."""
    not_replayed: tuple[str, ...]
    """Settings of the run or the variant that a replay cannot apply, as text."""
    keeps_draws: bool
    """True if the guidance sets drawn or set during the run are kept, so that guidance is as recorded."""
    draws: RandomGuidance | None = None
    """Draws guidance for live rounds, with the recorded draws, or None if nothing was drawn."""

    @property
    def workflow_mode(self) -> bool:
        """True if text-only replies do not end the run."""
        return bool(getattr(self.policy, "workflow_mode", False))

    @property
    def sentence(self) -> str:
        """The variant in a few words."""
        mode = ", workflow mode" if self.workflow_mode else ""
        detectors = "".join(f", detectors {extension.settings['preset']}" for extension in self.extensions)
        limits = "".join(f", {name} {value:g}" for name, value in self.limits.items() if name not in NOT_COUNTED)
        return f"guidance {self.words.name}, policy {self.policy.name}{mode}{detectors}{limits}"

    def vary(self, event: AnyEvent) -> AnyEvent | None:
        """Return the event with the variant's settings applied, or None to drop the event."""
        if isinstance(event, RunStarted):
            return self._vary_start(event)
        return event if self.keeps_draws else without_draws(event)

    def _vary_start(self, started: RunStarted) -> RunStarted:
        own: dict[str, Any] = {name: value for name, value in started.settings.items() if name not in LIMITS}
        own |= {**self.limits, "policy": settings_of(self.policy)}
        own["extensions"] = [extension.as_logged for extension in self.extensions]
        own["guidance"] = {"set": self.words.name, "version": self.words.version}
        return structs.replace(started, settings=own, guidance=self.words.as_texts.texts)


def variant_of(
    run: Run,
    *,
    guidance: str | GuidanceSet | None = None,
    policy: str | PolicySet | None = None,
    limits: Mapping[str, Any] | None = None,
    workflow_mode: bool | None = None,
    detect: Detectors | None = None,
    repeatable: Iterable[str] = (),
    is_live: bool = False,
) -> Variant:
    """Build a variant. Omitted settings come from the run's log, or else from ``matrix``.

    A run of another product has only the limits passed here. ``is_live``: whether its rounds are new, so that
    detectors may ask a model. For recorded rounds, the log supplies the findings of detectors that ask a model, or
    whose definition is not in the log. Raises `SettingsError` for invalid settings.
    """
    words = find_set(guidance) if guidance is not None else _logged_words(run)
    chosen = find_policy(policy) if policy is not None else _logged_policy(run)
    chosen = _in_mode(chosen, workflow_mode)
    amounts = _amounts(run, limits or {})
    counted = {name: value for name, value in amounts.items() if name not in NOT_COUNTED}
    bundle = Limits(**{"max_rounds": settings.MAX_ITERATIONS, **counted}).add_to(
        rules_of(chosen, words, repeatable), counts_rounds="max_rounds" in amounts
    )
    extensions = _detection(run, detect, is_live=is_live)
    bundle = extend_bundle(bundle, extensions)
    form = Output.from_log(run.settings) if is_own(run) else None
    if form is not None:
        bundle = form.held(bundle, in_workflow_mode=bool(getattr(chosen, "workflow_mode", False)))
    draws = RandomGuidance.from_log(run.settings) if guidance is None and is_own(run) else None
    kept = guidance is None, None if draws is None else draws.with_draws_of(run)
    return Variant(words, chosen, amounts, bundle, extensions, tuple(_not_replayed(run, amounts, extensions)), *kept)


def _logged_words(run: Run) -> GuidanceSet:
    return find_set(logged_guidance(run) if is_own(run) and "guidance" in run.settings else MATRIX)


def _logged_policy(run: Run) -> PolicySet:
    logged = run.settings.get("policy")
    if not is_own(run) or not isinstance(logged, dict):
        return Matrix()
    if logged == settings_of(EndWithTurn()):
        return EndWithTurn()
    if OWN_POLICY in logged:
        raise SettingsError(f"Run {run.id} had its own policy, {logged.get('name')}", "Pass it: replay(run, policy=...)")
    return logged_policy(run)


def _detection(run: Run, detect: Detectors | None, *, is_live: bool) -> tuple[Extension, ...]:
    """Return the responses to the findings of these detectors, or else of those of the original run."""
    preset = logged_extensions(run).get(DETECTION, {}).get("settings", {}).get("preset") if is_own(run) else None
    if detect is None and preset in names():
        detect = str(preset)
    if detect is not None:
        return (_as_extension(detect if is_live else without_asking(detect, run), detect_name(detect)),)
    return () if is_live or not preset else (_as_extension(recorded_findings(run), str(preset)),)


def _as_extension(detectors: Detectors, preset: str) -> Extension:
    return replace(detection(detectors), settings={"preset": preset})


def is_own(run: Run) -> bool:
    """True if agentnb made the run; in other products, settings have other meanings."""
    return run.origin is None


def _in_mode(policy: PolicySet, workflow_mode: bool | None) -> PolicySet:
    if workflow_mode:
        return in_workflow_mode(policy)
    return replace(policy, workflow_mode=False) if workflow_mode is False and isinstance(policy, Matrix) else policy


def _amounts(run: Run, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the run's limits, updated with these (None removes a limit)."""
    for name, value in overrides.items():
        if name not in LIMITS:
            raise SettingsError(f"There is no limit {name!r}", suggest_names(name, LIMITS))
        if value is not None:
            LIMITS[name].check(value)
    logged_limits = Limits.from_log(run.settings) if is_own(run) else {}
    logged = {name: value for name, value in logged_limits.items() if name in LIMITS}
    return {name: value for name, value in {**logged, **overrides}.items() if value is not None}


def _not_replayed(run: Run, amounts: Mapping[str, Any], extensions: Iterable[Extension]) -> Iterable[str]:
    yield "time and money"
    yield from (f"the limit {name}" for name in NOT_COUNTED if name in amounts)
    if is_own(run):
        yield from (f"the gate {name}" for name in names_of_gates(run))
        present = {extension.name for extension in extensions}
        yield from (f"the extension {name}" for name in logged_extensions(run) if name not in present)
