"""The extension `Plans`: a chat whose model makes plans that are run, drafted or reviewed."""

from __future__ import annotations

from agentnb.agent.extension import Extension
from agentnb.chat.plans.plan_review import Verdict
from agentnb.chat.plans.plan_tool import PlanTool
from agentnb.errors import SettingsError, near
from agentnb.models.model import Model
from agentnb.models.registry import check_model

NAME = "plans"
FAILED_REVIEWS: dict[str, Verdict] = {"needs_changes": "needs_changes", "reject": "rejected", "approve": "approved"}
"""What a review that failed counts as, by the words for it."""


def Plans(  # noqa: N802  # an extension, made as other extensions are
    *,
    model: str | Model | None = None,
    reviewer: str | Model | None = None,
    max_tool_calls: int = 40,
    max_seconds: float | None = 600,
    review_failed: str = "needs_changes",
) -> Extension:
    """Return the extension with the tool ``agent_create_plan``: ``Agent(extensions=[Plans()])``.

    The model makes a plan that runs at once, waits as a draft for the person, or runs if a reviewer approves it. ``model``:
    that of planner and executors, ``reviewer``: that of reviews, both by default the run's. ``max_tool_calls``: of an executor;
    ``max_seconds``: of a call, planning and review included, which do not count for the turn. ``review_failed``: what a review
    counts as whose model is down or whose answer cannot be read: ``needs_changes``, ``reject`` or ``approve``.
    Raises `SettingsError` for what cannot be.
    """
    for given in (model, reviewer):
        if given is not None:
            check_model(given)
    if review_failed not in FAILED_REVIEWS:
        raise SettingsError(f"review_failed={review_failed!r} is not known", near(review_failed, FAILED_REVIEWS))
    if type(max_tool_calls) is not int or max_tool_calls < 1 or not (max_seconds is None or max_seconds > 0):
        raise SettingsError("max_tool_calls and max_seconds of Plans are above 0", "max_seconds=None sets no limit")
    tool = PlanTool(model, reviewer, max_tool_calls, max_seconds, FAILED_REVIEWS[review_failed])
    settings = {"max_tool_calls": max_tool_calls, "max_seconds": max_seconds, "review_failed": review_failed}
    return Extension(name=NAME, settings=settings, tools=[tool])
