"""Agents, workflows and orchestrations as tools: each call starts a nested run and returns its answer."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Awaitable, Mapping
from typing import Any, NamedTuple, Protocol, TypedDict, Unpack

from agentnb.advice import Plain
from agentnb.core.messages import Text, encodable
from agentnb.core.request import ToolRole, ToolSpec
from agentnb.core.run.facts import RunFacts
from agentnb.errors import AgentnbError, InvalidTool, NestedTooDeep, SettingsError, StoreError, suggest_similar
from agentnb.tools import tool_errors
from agentnb.tools.rendering import as_text
from agentnb.tools.signature import refused_arguments
from agentnb.tools.subject import KINDS as SUBJECTS
from agentnb.tools.tool import WIRE_NAME, Effect, ToolContext, ToolOutcome, check_tool


class AgentSettings(TypedDict, total=False):
    """Keywords of `tool` for an agent, a workflow or an orchestration."""

    name: str | None
    description: str | None
    parallel_safe: bool
    timeout: float | None
    repeatable: bool
    role: ToolRole | None


AGENT_SETTINGS = tuple(AgentSettings.__annotations__)
REFUSED_SETTINGS = {
    "effects": "Leave it out: the call itself has no effects, and each call of its run is judged separately",
    "blocking": "Leave it out: its run asks the person itself, and other calls wait for it anyway",
    **dict.fromkeys((*SUBJECTS, "content"), "Leave it out: rules apply to the calls in its run"),
}
"""Settings of function tools that make no sense here, each with the reason."""
PROMPT = "prompt"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        PROMPT: {
            "type": "string",
            "description": "the complete task: the agent sees nothing else of this conversation",
        }
    },
    "required": [PROMPT],
    "additionalProperties": False,
}
MAX_DESCRIPTION = 300
"""Maximum number of characters in a description taken from a system prompt."""
_SENTENCE = re.compile(r".+?(?:[.!?][\"')\]*_]*(?=\s+[^\sa-z]|\s*$)|$)")
"""First sentence of a line. A full stop before a lowercase letter ends an abbreviation, not the sentence."""


class ToolOffer(NamedTuple):
    """Default name and description of an agent, a workflow or an orchestration as a tool."""

    name: str
    description: str
    is_named: bool = True
    """True if the person named it, False if it has the default name for its kind."""


class AgentLike(Protocol):
    """Agent, workflow or orchestration that an `AgentTool` can run."""

    @property
    def tool_offer(self) -> ToolOffer:
        """Name and description as a tool, unless others are passed to `tool`."""

    def run(self, prompt: Any, /) -> Awaitable[Any]:
        """Run to the end on the running event loop."""


class AgentTool:
    """An agent, a workflow or an orchestration as a tool with one text argument, ``prompt``.

    A call starts a nested run, as ``context.start_run`` does, and returns the text of that run, or its output as JSON if the
    agent has an ``output``. A run that does not complete becomes an error result with the reason.

    ``name``: tool name, by default the agent's name with ``_`` for characters that tool names cannot have. ``description``: by
    default the first sentence of the agent's system prompt. ``parallel_safe``: calls may run in parallel. ``timeout``: seconds
    after which a call is abandoned and its run stopped. ``repeatable``: allow the same prompt again; otherwise the
    duplicate-call guard may block it. ``role``: ``planning`` or ``list``, so that calls do not count as work. The call itself
    has no effects: the calls of its run are judged by their own effects. Raises `InvalidTool` for a name that no provider
    accepts, and for unknown settings.
    """

    effects: frozenset[Effect] = frozenset()
    blocking = False

    def __init__(self, agent: AgentLike, /, **settings: Unpack[AgentSettings]) -> None:
        """``settings``: the keywords described above."""
        offer = agent.tool_offer
        _check_settings(offer.name, settings)
        self.agent = agent
        self.settings = settings
        """Settings passed to the constructor."""
        name, description = settings.get("name"), settings.get("description")
        self.parallel_safe = bool(settings.get("parallel_safe"))
        self.timeout = settings.get("timeout")
        self.repeatable = bool(settings.get("repeatable"))
        role = settings.get("role")
        name = _name_of(offer) if name is None else name
        check_tool(name, self.timeout, role)
        self.spec = ToolSpec(name, offer.description if description is None else description, SCHEMA, (), role)

    def with_settings(self, **settings: Unpack[AgentSettings]) -> AgentTool:
        """Return a copy with these settings replaced."""
        merged: AgentSettings = {**self.settings, **settings}
        return AgentTool(self.agent, **merged)

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Check the prompt, start a nested run, wait for its end, and return its answer."""
        name = self.spec.name
        if (refused := self.refusal(arguments)) is not None:
            return refused
        try:
            run: RunFacts = await context.start_run(self.agent, arguments[PROMPT])
        except NestedTooDeep:
            raise  # the caller turns it into a result
        except AgentnbError as error:
            if isinstance(error, SettingsError) and error.run is None:
                return tool_errors.run_not_begun(name, error)
            if isinstance(error, StoreError) or not isinstance(error.run, RunFacts) or error.run.should_continue:
                raise
            run = error.run
        return _answer(run) if run.status == "completed" else tool_errors.run_not_completed(name, run)

    def refusal(self, arguments: Any) -> ToolOutcome | None:
        """Return the error result of `run` if the arguments are not a single text ``prompt``, otherwise None."""
        fits = isinstance(arguments, dict) and arguments.keys() == {PROMPT} and isinstance(arguments[PROMPT], str)
        return None if fits else refused_arguments(self.spec.name, arguments, SCHEMA)

    def __repr__(self) -> str:
        return f"<tool {self.spec.name}>"


def offer_of(value: Any) -> ToolOffer | None:
    """Return the tool offer of an agent, a workflow or an orchestration, or None for any other value."""
    offer = getattr(value, "tool_offer", None)
    return offer if isinstance(offer, ToolOffer) else None


def tool_of_variable(value: Any, variable: str) -> Any:
    """Return the value of a variable as a tool.

    An agent or workflow with a default name, or with a name that tools cannot have, takes the name of the variable.
    """
    offer = offer_of(value)
    if offer is None or (offer.is_named and _wire_name(offer.name)):
        return value
    return AgentTool(value, name=variable)


def first_sentence(text: str) -> str:
    """Return the first sentence of the text on one line, skipping headings; empty if there are no words."""
    lines = [line.strip() for line in text.strip().splitlines()]
    while lines and (not lines[0] or lines[0].startswith("#")):
        lines.pop(0)
    paragraph = " ".join(" ".join(lines[: lines.index("")] if "" in lines else lines).split())
    match = _SENTENCE.match(paragraph)
    sentence = match.group() if match else ""
    return sentence if len(sentence) <= MAX_DESCRIPTION else sentence[: MAX_DESCRIPTION - 1].rstrip() + "…"


def neutral_description(kind: str, name: str = "") -> str:
    """Return a generic description for a tool that has none. ``name``: empty if it has the default name for its kind."""
    subject = f"The {kind} {name}" if name else f"This {kind}"
    return f"{subject} works on the prompt independently and returns its result."


def _answer(run: RunFacts) -> ToolOutcome:
    """Return the outcome of a completed run: its text, or the agent's output as JSON. The value is plain data."""
    output = run.plain_output
    text = run.text if run.output_schema is None or output is None else as_text(output)
    return ToolOutcome(True, (Text(encodable(text)),), run.text if output is None else output)


def _check_settings(name: str, settings: Mapping[str, Any]) -> None:
    for key in settings:
        if key in REFUSED_SETTINGS:
            raise InvalidTool(f"{key} does not apply to {name}: each of its calls starts a run", REFUSED_SETTINGS[key])
        if key not in AGENT_SETTINGS:
            takes = f"tool(agent) accepts {', '.join(AGENT_SETTINGS)}"
            raise InvalidTool(f"tool({name}) has no setting {key}", (*suggest_similar(key, AGENT_SETTINGS), Plain(takes)))
    description = settings.get("description")
    if not (description is None or isinstance(description, str)):
        raise InvalidTool(f"The description of {name} is not a string: {description!r}")


def _name_of(offer: ToolOffer) -> str:
    """Return the tool name. Raises `InvalidTool` if no character of the offered name is allowed in tool names."""
    name = _wire_name(offer.name)
    if not name:
        raise InvalidTool(f"{offer.name!r} is not a valid tool name", 'Choose another: tool(researcher, name="...")')
    return name


def _wire_name(name: str) -> str:
    if WIRE_NAME.fullmatch(name):
        return name
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-zA-Z0-9_-]+", "_", plain).strip("_-")[:64]
