"""Model calls made by actions, such as for a plan: each is a separate step and a logged operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import uuid4

from agentnb.core.messages import ToolCall
from agentnb.core.request import Request
from agentnb.core.schema.json_schema import plain_data
from agentnb.errors import SettingsError
from agentnb.models.destinations.destination import FileModelName
from agentnb.models.model import Model
from agentnb.models.registry import check_destinations, make_model
from agentnb.runtime.replies.side_calls import SideModels
from agentnb.runtime.steps.attempt import Attempt, Place
from agentnb.runtime.steps.step_runner import StepRunner
from agentnb.workflow.running.agents import script_of
from agentnb.workflow.running.execution import call_step


class ModelAnswer(NamedTuple):
    """A model's reply to an action."""

    id: str
    """Id of the reply, which stays the same if the process is killed and the run resumed."""
    text: str
    calls: tuple[ToolCall, ...] = ()
    stop_reason: str = ""


class ModelSteps:
    """Model calls made by the actions of one run."""

    def __init__(self, steps: StepRunner, settings: Mapping[str, Any]) -> None:
        """``settings``: the run's model settings, ``model`` and ``replies``."""
        self._steps = steps
        self._models = SideModels(None, steps)
        self._model = settings.get("model")
        self._replies: Mapping[str, Any] = settings.get("replies") or {}
        self._made: dict[str, Model] = {}

    async def ask(self, around: Place, key: str, request: Request, operation: str, model: str | None = None) -> ModelAnswer:
        """Return a model's reply. ``model``: its name, by default the run's.

        A reply that a dead process received is read from the log. Raises `FailedStep` if there is no reply.
        """
        step, step_place = call_step(around, key)
        chosen = self._choose(around.path, model)

        async def work(attempt: Attempt) -> dict[str, Any]:
            reply = await self._models.ask(request, operation, chosen)
            call_data = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in reply.message.calls]
            answer = {"id": uuid4().hex, "text": reply.message.text, "calls": call_data, "stop_reason": reply.stop_reason}
            return dict(plain_data(answer, f"The reply of {chosen.name}"))

        answer = await self._steps.attempts(step, step_place, work, agent=chosen.name, title=operation)
        calls = tuple([ToolCall(call["name"], call["arguments"], call["id"]) for call in answer["calls"]])
        return ModelAnswer(answer["id"], answer["text"], calls, answer["stop_reason"] or "")

    def _choose(self, path: str, name: str | None) -> Model:
        if path in self._replies:
            if path not in self._made:
                used = len(self._steps.log.run.model_calls)  # continue where it stopped
                self._made[path] = script_of(path, self._replies[path], used)
            return self._made[path]
        if name:  # from a file, a log or a variable: these may not choose a destination
            named = FileModelName(name)
            check_destinations([named])
            return self._made.setdefault(f"model {name}", make_model(named))
        if self._model is None:
            raise SettingsError(f"The task {path} needs a model", "Run the file with model=, or -m in a shell")
        return make_model(self._model)
