"""The extension `Plans`: a chat whose model makes plans, to be run, drafted or reviewed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentnb.agent.extension import Extension, logged_extensions
from agentnb.chat.plans.draft_turn import DraftTurn, kept_plans
from agentnb.chat.plans.known_drafts import CARRIED, EXTENSION, carried_drafts
from agentnb.chat.plans.plan_execution import PlanExecution
from agentnb.chat.plans.plan_tool import PlanTool
from agentnb.chat.plans.planning import NAME, VERDICTS
from agentnb.detect.run import Run
from agentnb.errors import SettingsError, suggest_names
from agentnb.models.model import Model
from agentnb.models.registry import check_model

MODELS = ("model", "reviewer")
FAILED_REVIEWS = ("needs_changes", "reject", "approve")
"""Possible verdicts for a review that failed."""


def Plans(  # noqa: N802  # an extension, made as other extensions are
    *,
    model: str | Model | None = None,
    reviewer: str | Model | None = None,
    max_tool_calls: int = 40,
    max_seconds: float | None = 600,
    review_failed: str = "needs_changes",
) -> Extension:
    """Return the extension with the tool ``agent_create_plan``: ``Agent(extensions=[Plans()])``.

    The model makes a plan that runs at once, waits for the person as a draft, or runs if a reviewer approves it.
    ``model``: for planner and executors; ``reviewer``: for reviews; both default to the run's model.
    ``max_tool_calls``: per plan; ``max_seconds``: per call, including planning and review, which do not count towards
    the turn. ``review_failed``: verdict if a review has no readable answer: ``needs_changes``, ``reject`` or
    ``approve``. Raises `SettingsError` for invalid settings.
    """
    for choice in (model, reviewer):
        if choice is not None:
            check_model(choice)
    if review_failed not in FAILED_REVIEWS:
        raise SettingsError(f"review_failed={review_failed!r} is unknown", suggest_names(review_failed, FAILED_REVIEWS))
    if type(max_tool_calls) is not int or max_tool_calls < 1 or not (max_seconds is None or max_seconds > 0):
        raise SettingsError("max_tool_calls and max_seconds of Plans must be above 0", "max_seconds=None means no limit")
    execution = PlanExecution(model, max_tool_calls, max_seconds)
    settings = {"max_tool_calls": max_tool_calls, "max_seconds": max_seconds, "review_failed": review_failed}
    models = zip(MODELS, (model, reviewer), strict=True)
    settings |= {name: choice if isinstance(choice, str) else choice.name for name, choice in models if choice is not None}

    def continuing(before: Run) -> Extension:
        drafts = carried_drafts(before)
        return replace(extension, settings={**settings, CARRIED: drafts} if drafts else settings)

    extension = Extension(
        name=EXTENSION,
        settings=settings,
        tools=[PlanTool(execution, reviewer, VERDICTS[review_failed])],
        endings=(DraftTurn(execution),),
        keeps=(kept_plans,),
        continuing=continuing,
    )
    return extension


def plans_again(run: Run) -> tuple[Extension, ...]:
    """Recreate the plans extension from the log of a run, if the run could make plans. Raises `SettingsError` like
    `plans_of`.
    """
    logged = logged_extensions(run).get(EXTENSION)
    return () if logged is None or logged.get("tools") != [NAME] else (plans_of(logged.get("settings", {})),)


def plans_of(settings: Mapping[str, Any]) -> Extension:
    """Return the extension with these logged settings. Raises `SettingsError` if it had its own models."""
    named = ", ".join(f"{name}={settings[name]}" for name in MODELS if name in settings)
    if named:
        problem = f"The run used separate models for its plans, and the log records only their names: {named}"
        raise SettingsError(problem, "Pass them: recover(run, agent=Agent(..., extensions=[Plans(...)]))")
    return Plans(**{name: value for name, value in settings.items() if name != CARRIED})
