"""Extensions of an agent: additions from other parts of agentnb, such as plans. The agent does not depend on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from typing import Any

from agentnb.advice import Plain
from agentnb.agent.conversation_context import ConversationContext
from agentnb.core.schema.json_schema import plain_data
from agentnb.detect.custom import FunctionDetector
from agentnb.detect.detector import DetectorMaker
from agentnb.detect.run import Run
from agentnb.errors import SettingsError, suggest_names
from agentnb.guidance.guides import Guide
from agentnb.policies.bundle import PolicyBundle
from agentnb.policies.gates import Gate, OnCopy
from agentnb.policies.run_limits import LIMIT_SETTINGS
from agentnb.policies.verdict import Ending, Policy
from agentnb.runtime.calls.virtual_tools import Handler
from agentnb.tools.builtin.builtin_names import tools_of
from agentnb.tools.mcp.mcp_server import ServerTools, servers_among
from agentnb.tools.tool import WIRE_NAME

AGENT_SETTINGS = ("model", "policy", *LIMIT_SETTINGS)
"""Settings of the agent that an extension may set."""
_PARTS = ("policies", "guides", "gates", "detectors", "limits", "endings", "keeps")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """Additions to an agent, each part optional. The parts of several extensions keep their order.

    ``prompt`` follows the agent's own system prompt and the notes on its repository and tools. ``tools`` follow the
    agent's own; they are offered to the model, and need not be named to recover the run. ``policies`` are consulted
    before those of the agent's policy, and so may decide first; ``limits`` are consulted last, since they stop runs
    that another policy would continue. ``guides``, ``gates`` and ``detectors`` follow those of the agent's policy;
    the agent's own ``gates`` come last. ``agent_settings`` are settings for the agent: limits by name, ``on_limit``
    and ``policy`` if it has none of its own, and ``model``, which replaces its own. ``virtual_tools`` are handlers by
    the name of the call, tried before any tool: ``handler(arguments, context)``, sync or async, receives the model's
    original arguments and a `ToolContext`, and returns the result. ``context``: the context of the runs, as made by
    `ContextType`; ``continuing`` returns the extension for a run that continues this one. ``endings`` are consulted
    when a run would end as completed: each may insert another round or an `Interlude`. ``keeps`` are functions
    returning text that compaction keeps verbatim in the conversation. ``settings`` are plain data for the log.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    prompt: str = ""
    tools: Iterable[Any] = ()
    policies: tuple[Policy, ...] = ()
    guides: tuple[Guide, ...] = ()
    gates: tuple[Gate, ...] = ()
    detectors: tuple[DetectorMaker, ...] = ()
    limits: tuple[Policy, ...] = ()
    endings: tuple[Ending, ...] = ()
    keeps: tuple[Callable[[Run], str], ...] = ()
    agent_settings: Mapping[str, Any] = field(default_factory=dict)
    virtual_tools: Mapping[str, Handler] = field(default_factory=dict)
    context: ConversationContext | None = None
    continuing: Callable[[Run], Extension] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise SettingsError(f"name={self.name!r} is not a valid extension name", 'For example: Extension(name="plans")')
        self._check_parts()
        object.__setattr__(self, "settings", plain_data(dict(self.settings)))
        tools = [tool for value in self.tools for tool in (*tools_of(value), *servers_among([value]))]
        object.__setattr__(self, "tools", tuple(tools))

    def _check_parts(self) -> None:
        """Raise `SettingsError` for a part of the wrong type."""
        for name, handler in self.virtual_tools.items():
            if not (isinstance(name, str) and WIRE_NAME.fullmatch(name) and callable(handler)):
                problem = f"The extension {self.name} has an invalid virtual tool {name!r}: {handler!r}"
                raise SettingsError(problem, 'Write virtual_tools={"name_of_a_tool": handler}')
        for name in self.agent_settings:
            if name not in AGENT_SETTINGS:
                problem = f"The extension {self.name} cannot set its agent's {name!r}"
                raise SettingsError(problem, suggest_names(str(name), AGENT_SETTINGS))
        if not isinstance(self.prompt, str) or not isinstance(self.settings, Mapping):
            raise SettingsError(f"The extension {self.name} has a prompt that is not a string, or settings that are not a dict")
        tools: Any = self.tools
        if isinstance(tools, str) or not isinstance(tools, Iterable):
            raise SettingsError(f"The extension {self.name} has tools={tools!r}, which is not a list", "Use tools=[f]")
        for part in _PARTS:
            items: Any = getattr(self, part)
            if isinstance(items, str) or not isinstance(items, Iterable) or not all(map(callable, items)):
                raise SettingsError(
                    f"The extension {self.name} has {part}={items!r}, which is not a list of functions", f"Use {part}=(f,)"
                )
            object.__setattr__(self, part, tuple(items))

    @property
    def as_logged(self) -> dict[str, Any]:
        """The extension as plain data: its name, its tools' names, and its settings."""
        names = [tool.word if isinstance(tool, ServerTools) else tool.spec.name for tool in self.tools]
        parts = {"tools": names, "settings": dict(self.settings), "inert": self.is_inert}
        return {"name": self.name, **{name: value for name, value in parts.items() if value}}

    @property
    def without_model(self) -> Extension:
        """The extension without a model for its agent."""
        kept = {name: value for name, value in self.agent_settings.items() if name != "model"}
        return self if len(kept) == len(self.agent_settings) else replace(self, agent_settings=kept)

    @property
    def is_inert(self) -> bool:
        """True if the extension only adds settings for the log; these do not affect a run."""
        added = (self.prompt, self.tools, self.agent_settings, self.virtual_tools, self.context)
        return not (any(added) or any(getattr(self, part) for part in _PARTS))


def check_kinds_and_names(extensions: Any) -> tuple[Extension, ...]:
    """Return the extensions. Raises `SettingsError` for values of another type and for duplicate names."""
    items = tuple(extensions) if isinstance(extensions, Iterable) and not isinstance(extensions, str) else (extensions,)
    names: set[str] = set()
    for extension in items:
        if not isinstance(extension, Extension):
            raise SettingsError(
                f"extensions={extension!r} is not an extension", 'Write extensions=[Extension(name="plans", ...)]'
            )
        if extension.name in names:
            raise SettingsError(f"Two extensions are named {extension.name!r}", "Rename one of them")
        names.add(extension.name)
    return items


def extend_bundle(bundle: PolicyBundle, extensions: tuple[Extension, ...]) -> PolicyBundle:
    """Return the bundle with the parts of these extensions added."""
    if not extensions:
        return bundle
    return bundle._replace(
        policies=(*each(extensions, "policies"), *bundle.policies, *each(extensions, "limits")),
        guides=(*bundle.guides, *each(extensions, "guides")),
        gates=(*bundle.gates, *map(OnCopy, each(extensions, "gates"))),
        detectors=(*bundle.detectors, *[maker for maker in each(extensions, "detectors") if not _asks_model(maker)]),
        model_detectors=(*bundle.model_detectors, *[maker for maker in each(extensions, "detectors") if _asks_model(maker)]),
        endings=(*bundle.endings, *each(extensions, "endings")),
        keeps=(*bundle.keeps, *each(extensions, "keeps")),
    )


def _asks_model(maker: DetectorMaker) -> bool:
    return isinstance(maker, FunctionDetector) and maker.asks_model


def context_of(extensions: Iterable[Extension]) -> ConversationContext | None:
    """Return the context of runs with these extensions, or None."""
    return next((extension.context for extension in extensions if extension.context is not None), None)


def merge_part(extensions: Iterable[Extension], part: str) -> dict[str, Any]:
    """Merge a part with named values across all extensions; for each name, the first extension that has it wins."""
    values: dict[str, Any] = {}
    for extension in reversed([*extensions]):
        values.update(getattr(extension, part))
    return values


def without_model(extensions: Iterable[Extension]) -> tuple[Extension, ...]:
    """Return the extensions without models, for a copy of their agent with another model."""
    return tuple([extension.without_model for extension in extensions])


def each(extensions: Iterable[Extension], part: str) -> Iterator[Any]:
    """Yield the items of a part, across all extensions."""
    return chain.from_iterable(map(attrgetter(part), extensions))


def logged_extensions(run: Run) -> dict[str, dict[str, Any]]:
    """Return the extensions of a run from its log, by name."""
    return {extension["name"]: extension for extension in run.settings.get("extensions", [])}


def check_extensions(run: Run, extensions: Iterable[Extension]) -> None:
    """Raise `SettingsError` if an extension of the run is missing here, unless it has no effect."""
    names = [extension.name for extension in extensions]
    for name, logged in logged_extensions(run).items():
        if name not in names and not logged.get("inert"):
            raise SettingsError(
                f"The log of run {run.id} does not contain its extension {name}",
                (Plain("Pass it: recover(run, agent=Agent(..., extensions=[...]))"), *suggest_names(name, names)),
            )
