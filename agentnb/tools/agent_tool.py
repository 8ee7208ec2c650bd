"""Agents, workflows and orchestrations as tools: a call begins a nested run, whose answer is the result."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Awaitable, Mapping
from typing import Any, NamedTuple, Protocol, TypedDict, Unpack

from agentnb.advice import Plain
from agentnb.core.messages import Text, encodable
from agentnb.core.request import ToolRole, ToolSpec
from agentnb.core.run.facts import RunFacts
from agentnb.errors import AgentnbError, InvalidTool, NestedTooDeep, SettingsError, StoreError, nearest
from agentnb.tools import tool_errors
from agentnb.tools.rendering import as_text
from agentnb.tools.signature import refused_arguments
from agentnb.tools.subject import KINDS as SUBJECTS
from agentnb.tools.tool import WIRE_NAME, Effect, ToolContext, ToolOutcome, check_tool


class AgentSettings(TypedDict, total=False):
    """What `tool` takes for an agent, a workflow or an orchestration."""

    name: str | None
    description: str | None
    parallel_safe: bool
    timeout: float | None
    repeatable: bool
    role: ToolRole | None


AGENT_SETTINGS = tuple(AgentSettings.__annotations__)
REFUSED_SETTINGS = {
    "effects": "Leave it out: the call does nothing by itself, and each call of its run is judged by its own effects",
    "blocking": "Leave it out: its run asks the person by itself, and other calls wait for the call anyway",
    **dict.fromkeys((*SUBJECTS, "content"), "Leave it out: rules about it hold for the calls of its run"),
}
"""Settings of functions that make no sense for these, and why."""
PROMPT = "prompt"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        PROMPT: {
            "type": "string",
            "description": "the task, with all that is needed for it: nothing else of this conversation is seen",
        }
    },
    "required": [PROMPT],
    "additionalProperties": False,
}
MAX_DESCRIPTION = 300
"""Characters of the description that is made of a system prompt."""
_SENTENCE = re.compile(r".+?(?:[.!?][\"')\]*_]*(?=\s+[^\sa-z]|\s*$)|$)")
"""The first sentence of a line. A full stop before a small letter is that of an abbreviation."""


class ToolOffer(NamedTuple):
    """An agent, a workflow or an orchestration as it presents itself as a tool."""

    name: str
    description: str
    is_named: bool = True
    """Whether the person named it; else it has the default name of its kind."""


class AgentLike(Protocol):
    """What an `AgentTool` runs: an agent, a workflow or an orchestration."""

    @property
    def tool_offer(self) -> ToolOffer:
        """Its name and description as a tool, unless `tool` gives others."""

    def run(self, prompt: Any, /) -> Awaitable[Any]:
        """Run to the end, on the running event loop."""


class AgentTool:
    """An agent, a workflow or an orchestration that a model may call, with one text, ``prompt``.

    A call begins a nested run, as ``context.start_run`` does, and its result is the text of that run, or its output as JSON if
    the agent has an ``output``. A run that ends otherwise than completed is an error result with the reason.

    ``name``: what the model calls it, by default the agent's name with ``_`` for what a tool's name cannot hold.
    ``description``: by default the first sentence of the agent's system prompt. ``parallel_safe``: calls may run beside others.
    ``timeout``: seconds after which a call is abandoned, and its run stopped. ``repeatable``: the same prompt may be given
    again; else the duplicate-call guard may block it. ``role``: ``planning`` or ``list`` if calling it does not count as work.
    The call has no effects on the world: the calls of its run are judged by their own.
    Raises `InvalidTool` for a name that no provider takes, and for other settings.
    """

    effects: frozenset[Effect] = frozenset()
    blocking = False

    def __init__(self, agent: AgentLike, /, **settings: Unpack[AgentSettings]) -> None:
        """``settings``: the keywords above."""
        offer = agent.tool_offer
        _check_settings(offer.name, settings)
        self.agent = agent
        self.settings = settings
        """The settings that it was made with."""
        name, description = settings.get("name"), settings.get("description")
        self.parallel_safe = bool(settings.get("parallel_safe"))
        self.timeout = settings.get("timeout")
        self.repeatable = bool(settings.get("repeatable"))
        role = settings.get("role")
        name = _name_of(offer) if name is None else name
        check_tool(name, self.timeout, role)
        self.spec = ToolSpec(name, offer.description if description is None else description, SCHEMA, (), role)

    def with_settings(self, **settings: Unpack[AgentSettings]) -> AgentTool:
        """Return a tool of the same agent with these settings in place of its own."""
        merged: AgentSettings = {**self.settings, **settings}
        return AgentTool(self.agent, **merged)

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Check the prompt, begin a nested run with it, wait for its end, and return its answer."""
        name = self.spec.name
        if (refused := self.refusal(arguments)) is not None:
            return refused
        try:
            run: RunFacts = await context.start_run(self.agent, arguments[PROMPT])
        except NestedTooDeep:
            raise  # told by whoever runs the call
        except AgentnbError as error:
            if isinstance(error, SettingsError) and error.run is None:
                return tool_errors.run_not_begun(name, error)
            if isinstance(error, StoreError) or not isinstance(error.run, RunFacts) or error.run.should_continue:
                raise
            run = error.run
        return _answer(run) if run.status == "completed" else tool_errors.run_not_completed(name, run)

    def refusal(self, arguments: Any) -> ToolOutcome | None:
        """Return the error result of `run` for arguments that are not one text as ``prompt``; None for others."""
        fits = isinstance(arguments, dict) and arguments.keys() == {PROMPT} and isinstance(arguments[PROMPT], str)
        return None if fits else refused_arguments(self.spec.name, arguments, SCHEMA)

    def __repr__(self) -> str:
        return f"<tool {self.spec.name}>"


def offer_of(value: Any) -> ToolOffer | None:
    """Return the offer of an agent, a workflow or an orchestration; None for anything else."""
    offer = getattr(value, "tool_offer", None)
    return offer if isinstance(offer, ToolOffer) else None


def tool_of_variable(value: Any, variable: str) -> Any:
    """Return the value of a variable as the tool that the variable names.

    An agent or workflow whose name is the default of its kind, or cannot be the name of a tool, is called as the variable.
    """
    offer = offer_of(value)
    if offer is None or (offer.is_named and _wire_name(offer.name)):
        return value
    return AgentTool(value, name=variable)


def first_sentence(text: str) -> str:
    """Return the first sentence of a text, without headings before it, on one line; empty for a text without words."""
    lines = [line.strip() for line in text.strip().splitlines()]
    while lines and (not lines[0] or lines[0].startswith("#")):
        lines.pop(0)
    paragraph = " ".join(" ".join(lines[: lines.index("")] if "" in lines else lines).split())
    match = _SENTENCE.match(paragraph)
    sentence = match.group() if match else ""
    return sentence if len(sentence) <= MAX_DESCRIPTION else sentence[: MAX_DESCRIPTION - 1].rstrip() + "…"


def neutral_description(kind: str, name: str = "") -> str:
    """Return the description of a tool that says nothing of itself. ``name``: empty for the default of its kind."""
    subject = f"The {kind} {name}" if name else f"This {kind}"
    return f"{subject} works on the prompt by itself and returns its result."


def _answer(run: RunFacts) -> ToolOutcome:
    """Return the outcome of a completed run: its text, or the JSON of an agent's output. The value is plain data."""
    output = run.plain_output
    text = run.text if run.output_schema is None or output is None else as_text(output)
    return ToolOutcome(True, (Text(encodable(text)),), run.text if output is None else output)


def _check_settings(name: str, settings: Mapping[str, Any]) -> None:
    for key in settings:
        if key in REFUSED_SETTINGS:
            raise InvalidTool(f"{key} has no meaning for {name}, of which each call begins a run", REFUSED_SETTINGS[key])
        if key not in AGENT_SETTINGS:
            takes = f"tool(agent) takes {', '.join(AGENT_SETTINGS)}"
            raise InvalidTool(f"tool({name}) has no setting {key}", (*nearest(key, AGENT_SETTINGS), Plain(takes)))
    description = settings.get("description")
    if not (description is None or isinstance(description, str)):
        raise InvalidTool(f"description={description!r} of {name} is not a text")


def _name_of(offer: ToolOffer) -> str:
    """Return the name of the tool; raise `InvalidTool` for a name without a letter or digit that a tool's name can hold."""
    name = _wire_name(offer.name)
    if not name:
        raise InvalidTool(f"{offer.name!r} cannot be made the name of a tool", 'Give it one: tool(researcher, name="...")')
    return name


def _wire_name(name: str) -> str:
    if WIRE_NAME.fullmatch(name):
        return name
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-zA-Z0-9_-]+", "_", plain).strip("_-")[:64]
