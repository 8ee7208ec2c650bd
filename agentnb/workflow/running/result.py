"""The result of a workflow that names it: what ``output:`` of its file says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentnb.core.log.work_events import ResultGiven
from agentnb.core.run.step_outputs import text_of
from agentnb.core.schema.json_schema import plain_data
from agentnb.errors import SettingsError, StepFailed
from agentnb.runtime.event_log import EventLog
from agentnb.workflow.templates.templates import NoOutput, Scope, has_templates, rendered


def log_result(output: tuple[str, ...], scope: Any, log: EventLog) -> None:
    """Log the result of a workflow whose steps have completed: that of the first of these ids and templates that has one.

    If none has, because its step did not run, nothing is given: the text of the run is then what the step that ran last gave,
    and a warning says so. Raises `StepFailed` for a template that has no value for another reason.
    """
    if not output or any(isinstance(event, ResultGiven) for event in reversed(log.run.events)):
        return
    missing: list[str] = []
    for one in output:
        try:
            log.emit(ResultGiven, **_result(one, scope))
        except NoOutput as error:
            missing.append(error.what)
        except SettingsError as error:
            raise StepFailed(f"output: {error.what}", error.advice) from error
        else:
            return
    log.warn_once(f"output: {'; '.join(missing)}. The result is what the step that ran last gave")


def _result(one: str, scope: Scope) -> dict[str, Any]:
    if has_templates(one):
        return {"output": plain_data(rendered(one, scope))}
    entry = scope.steps.get(one)
    if entry is None:
        raise NoOutput(f"the step {one} gave nothing")
    return {"output": _value(entry), "text": text_of(entry) if "outputs" in entry else ""}


def _value(entry: Mapping[str, Any]) -> Any:
    """Return the output of a step; of a parallel block those of its children, by id."""
    if "outputs" in entry:
        return {name: _value(child) for name, child in entry["outputs"].items()}
    return entry["output"]
