"""The context of a run, restored from its log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentnb.agent.extension import Extension
from agentnb.chat.context_spec import KnownContexts
from agentnb.chat.context_type import ContextType, builtin_contexts
from agentnb.chat.turn_context import TurnContext, logged_settings
from agentnb.detect.run import Run
from agentnb.errors import SettingsError


def contexts_of_log(run: Run) -> KnownContexts:
    """Return the contexts available to the run; custom ones lack their ``load`` function.

    Raises `SettingsError` if the log has another format.
    """
    logged = (logged_settings(run) or {}).get("own")
    try:
        own = [ContextType(**data) for data in logged or ()]
    except (TypeError, SettingsError) as error:
        problem = f"The contexts in the log of run {run.id} cannot be read: {error}"
        raise SettingsError(problem, "Pass the agent: recover(run, agent=...)") from error
    return builtin_contexts().with_others(own)


def context_again(run: Run) -> tuple[Extension, ...]:
    """Return the extension of the run's context, if it had one. Raises `SettingsError` if the log lacks the context."""
    logged = logged_settings(run)
    if logged is None:
        return ()
    contexts = contexts_of_log(run)
    first = run.contexts[0] if run.contexts else ""
    context = contexts.get(first)
    if context is None:
        raise SettingsError(f"The log of run {run.id} does not contain its context {first!r}", "Start it again")
    applied = (str(logged.get("applied", first)), str(logged.get("applied_entity", "")))
    own = contexts.without(builtin_contexts())
    return (TurnContext(context, run.first_entity, contexts, {}, own, applied).extension,)


def rules_of_run(run: Run) -> list[Mapping[str, Any]]:
    """Return the plan rules of all contexts of the run."""
    contexts = contexts_of_log(run)
    return [rule for name in run.contexts if (context := contexts.get(name)) is not None for rule in context.plan_rules]
