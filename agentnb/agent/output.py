"""The output of an agent: the type or JSON Schema of its answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from agentnb.agent.output_schema import pydantic_adapter, schema_of
from agentnb.core.messages import JsonObject, encodable
from agentnb.core.run.run_output import MAX_PROBLEMS, logged_schema
from agentnb.core.schema.json_schema import check_schema, cut
from agentnb.errors import SettingsError
from agentnb.guidance.prompts import prompt
from agentnb.policies.answer_shape import AnswerShape
from agentnb.policies.bundle import PolicyBundle

EXAMPLE = "Use a dataclass, TypedDict, pydantic model, msgspec Struct or JSON Schema: Agent(output=Weather)"
MAX_RETRIES = 100


@dataclass(frozen=True, slots=True)
class Output:
    """The type of an agent's answers, and the number of retries for an answer that does not match it.

    ``type``: a dataclass, TypedDict, pydantic model, msgspec Struct, any other JSON-compatible type
    (``list[Weather]``, ``int``), or a JSON Schema as a dict. Raises `SettingsError` for anything else.

    Agent("openai:NAME", output=Output(Weather, retries=5))
    """

    type: Any
    retries: int = 2
    schema: JsonObject = field(init=False, repr=False, compare=False)
    """The JSON Schema passed to the model."""
    by_pydantic: bool = field(init=False, repr=False, compare=False)
    """True if pydantic parses the type, False if msgspec does."""

    def __post_init__(self) -> None:
        if not isinstance(self.retries, int) or isinstance(self.retries, bool) or not 0 <= self.retries <= MAX_RETRIES:
            raise SettingsError(f"Output's retries={self.retries!r} must be a whole number from 0 to {MAX_RETRIES}")
        schema, by_pydantic = (self.type, False) if isinstance(self.type, dict) else schema_of(self.type, EXAMPLE)
        object.__setattr__(self, "by_pydantic", by_pydantic)
        schema = check_schema(schema, "output", EXAMPLE)
        object.__setattr__(self, "schema", schema)

    @classmethod
    def of(cls, output: Any) -> Output | None:
        """Return the output for the setting of an agent: a type, a schema, an `Output`, or None for free text."""
        return output if output is None or isinstance(output, Output) else cls(output)

    @staticmethod
    def from_log(run_settings: JsonObject) -> Output | None:
        """Return the output from the settings of a logged run, with the schema as its type."""
        schema = logged_schema(run_settings)
        return None if schema is None else Output(schema, run_settings["output"].get("retries", 2))

    @property
    def as_logged(self) -> JsonObject:
        """The output as plain data."""
        return {"schema": self.schema, "retries": self.retries}

    def held(self, bundle: PolicyBundle, *, in_workflow_mode: bool) -> PolicyBundle:
        """Return the bundle with policies that enforce the output.

        Markers are parsed only in workflow mode, since ``{"status": "complete"}`` may be the answer or a part of it.
        """
        enforced = AnswerShape(self.schema, self.retries, self.problems).over(bundle)
        return enforced._replace(markers=bundle.markers and in_workflow_mode)

    @property
    def prompt(self) -> str:
        """The section of the system prompt that describes the form of the answer."""
        return prompt("output").replace("{{ schema }}", msgspec.json.encode(self.schema).decode())

    def read(self, value: Any) -> Any:
        """Parse plain data into an instance of the type; if only a schema is known, return the data unchanged. Raises
        ValueError.
        """
        if isinstance(self.type, dict):
            return value
        data = msgspec.json.encode(value)  # as JSON, where keys are strings, and dates as well
        if self.by_pydantic:
            return pydantic_adapter(self.type).validate_json(data)
        return msgspec.json.decode(data, type=self.type)

    def problems(self, value: Any) -> tuple[str, ...]:
        """Return the problems that only the type can detect, in plain data that matches the schema."""
        try:
            self.read(value)
        except (Exception, SystemExit) as error:  # anything a user's validator raises
            return tuple(_sentences(error))
        return ()


def _sentences(error: BaseException) -> list[str]:
    details = getattr(error, "errors", None)  # pydantic's
    if not callable(details):
        return [encodable(cut(str(error) or type(error).__name__))]
    problems = [(".".join(map(str, detail["loc"])), detail["msg"]) for detail in details()[:MAX_PROBLEMS]]
    return [encodable(cut(f"{location}: {words}" if location else words)) for location, words in problems]
