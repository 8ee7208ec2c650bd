"""The choice of a model for a cell that names none."""

from __future__ import annotations

from contextlib import suppress

from agentnb import settings
from agentnb.agent.from_log import logged_model
from agentnb.detect.run import Run
from agentnb.errors import SettingsError, UnknownModel
from agentnb.models.registry import DEFAULT, can_be_made, check_model
from agentnb.workflow.spec import WorkflowStep
from agentnb.workflow.step_tree import walk_all
from agentnb.workflow.workflow import Workflow

NOTE = (
    f"Using {DEFAULT}, a scripted stand-in, not a language model, because no model is named and no key is set. "
    "For a language model, enter a key, such as %agent key anthropic, and name the model: %%agent -m anthropic:NAME"
)


def choose_model(default: str | None, before: Run | None = None) -> tuple[str, str]:
    """Return the model and a line for the person, empty if there is nothing to explain.

    A run that continues ``before`` keeps its model, if that can be made from its name. Next come ``default``, the session's,
    and ``AGENTNB_MODEL``. With neither, the simulated model answers; but if there is a key, or the conversation was with a
    model object, `SettingsError` asks for a model, as no list of models is built in.
    """
    if before is not None and can_be_made(before.model):
        return logged_model(before), ""
    if default:
        return default, ""
    named = settings.default_model()
    if named:
        try:
            check_model(named)
        except UnknownModel as error:
            raise UnknownModel(f"{error.what} (named by AGENTNB_MODEL)", error.hint) from error
        return named, ""
    if before is not None:
        what = f"The conversation so far was with {before.model}, which was an object in Python"
        raise SettingsError(what, "Give it again: -m VARIABLE")
    keys = settings.providers_with_key()
    if keys:
        raise SettingsError(
            f"There is a key for {keys[0]}, but no model is named",
            f"Name one: %%agent -m {keys[0]}:NAME, or once for all cells: %agent defaults model={keys[0]}:NAME. "
            f"%agent models {keys[0]} lists them; {DEFAULT} needs none",
        )
    return DEFAULT, NOTE


def choose_model_of_workflow(workflow: Workflow, default: str | None) -> tuple[str | None, str]:
    """Return the model of agents that name none, chosen as for a cell, and a line for the person; None if none is needed."""
    if any(one.model is None and not one.replies for one in workflow.spec.agents.values()):
        return choose_model(default)
    if workflow.tasks is not None or any(isinstance(step, WorkflowStep) for step in walk_all(workflow.spec.steps)):
        with suppress(SettingsError):  # perhaps its actions, or the agents of the other file, need none
            return choose_model(default)[0], ""
    return None, ""
