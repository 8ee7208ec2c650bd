"""The choice of a model for a cell that does not name one."""

from __future__ import annotations

from contextlib import suppress

from agentnb import settings
from agentnb.advice import AnyAdvice, Plain, SetDefaultModel, SetKey, SetModel, ShowModels
from agentnb.agent.from_log import logged_model
from agentnb.core.plans.plan_history import PLANNING
from agentnb.detect.run import Run
from agentnb.errors import SettingsError, UnknownModel
from agentnb.models.registry import DEFAULT, can_be_made, check_model
from agentnb.workflow.files.declared_files import actions_of
from agentnb.workflow.form.step_tree import walk_all
from agentnb.workflow.form.workflow_spec import WorkflowStep
from agentnb.workflow.workflow import Workflow

NOTE = (
    Plain(f"Using {DEFAULT}, which is scripted and not a language model, because no model is named and no key is set"),
    SetKey("ANTHROPIC_API_KEY", lead="For a language model, enter a key"),
)


def choose_model(default: str | None, before: Run | None = None, cell: str = "agent") -> tuple[str, tuple[AnyAdvice, ...]]:
    """Return the model, and a note for the person if anything needs explaining.

    A run that continues ``before`` keeps that run's model, if it can be created from its name. Next come the session's
    ``default`` and ``AGENTNB_MODEL``. If none of these is set, the simulated model answers; but if a key is set, or the
    conversation was with a model object, `SettingsError` asks for a model, as no list of models is built in. ``cell``: the cell
    that lacks a model.
    """
    if before is not None and can_be_made(before.model):
        return logged_model(before), ()
    if default:
        return default, ()
    named = settings.default_model()
    if named:
        try:
            check_model(named)
        except UnknownModel as error:
            raise UnknownModel(f"{error.what} (named by AGENTNB_MODEL)", error.advice) from error
        return named, ()
    if before is not None:
        problem = f"The conversation so far used {before.model}, a Python object"
        raise SettingsError(problem, SetModel(again=True, lead="Pass it again"))
    keys = settings.providers_with_key()
    if keys:
        raise SettingsError(
            f"There is a key for {keys[0]}, but no model is named",
            (
                SetModel(f"{keys[0]}:NAME", cell=cell, lead="Name one"),
                SetDefaultModel(f"{keys[0]}:NAME", lead="Or once for all runs"),
                ShowModels(keys[0], rest=" lists them"),
                Plain(f"{DEFAULT} needs no key"),
            ),
        )
    return DEFAULT, (*NOTE, SetModel("anthropic:NAME", cell=cell, lead="Then name the model"))


def needs_model(workflow: Workflow) -> bool:
    """True if a planner, or an agent that does not name a model, needs a model from the run."""
    unnamed = any(agent.model is None and not agent.replies for agent in workflow.spec.agents.values())
    return unnamed or PLANNING in actions_of(workflow.declared)


def choose_model_of_workflow(workflow: Workflow, default: str | None) -> tuple[str | None, tuple[AnyAdvice, ...]]:
    """Return the model for agents that do not name one (chosen as for a cell, or None if not needed), and a note for the
    person.
    """
    if needs_model(workflow):
        return choose_model(default, cell="workflow")
    if workflow.tasks is not None or any(isinstance(step, WorkflowStep) for step in walk_all(workflow.spec.steps)):
        with suppress(SettingsError):  # its actions, or the agents of the other file, may not need one
            return choose_model(default)[0], ()
    return None, ()
