"""The settings of an agent, checked once, and the values derived from them for its runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentnb import settings
from agentnb.agent.detection import NAME as DETECTION
from agentnb.agent.detection import detection
from agentnb.agent.extension import AGENT_SETTINGS, Extension, checked_extensions, context_of, each, extended, merged
from agentnb.agent.output import Output
from agentnb.agent.run_context import RunContext
from agentnb.agent.taken_settings import NoLimit, taken_settings
from agentnb.context.history import History, as_logged, find_history
from agentnb.core.guidance import GuidanceTexts
from agentnb.core.todos import TODO_TOOL
from agentnb.detect.finding import Detectors
from agentnb.errors import InvalidTool, SettingsError
from agentnb.guidance import GuidanceSet, find_set
from agentnb.models.model import Model
from agentnb.models.registry import check_model, person_chose_destination
from agentnb.policies.bundle import PolicyBundle
from agentnb.policies.gates import Gate, OnCopy
from agentnb.policies.limits import Limits, OnLimit
from agentnb.policies.named import PolicySet, rules_of, settings_of
from agentnb.policies.permissions.rule_words import check_confirms, known_rules
from agentnb.policies.permissions.rules import RuleList
from agentnb.runtime.questions.answerers import Approve, check_approve
from agentnb.runtime.runs.gate_names import name_of_gate
from agentnb.tools.agent_tool import ToolOffer, first_sentence, neutral_description
from agentnb.tools.builtin.named import logged_builtins
from agentnb.tools.read_result import READ_TOOL
from agentnb.tools.todos.board import Board, is_board
from agentnb.tools.toolbox import Toolbox

DEFAULT_NAME = "agent"
"""The name of an agent that was given none."""
_TAKEN = (*AGENT_SETTINGS, "unpriced", "limits_of_file")
"""The settings that extensions and the policy add to."""
MODEL_FROM, PERSON = "model_from", "person"
"""The setting of a run whose model's name chooses a destination, and its value if the person named the model."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The settings of an agent, as documented at `Agent`. Raises `SettingsError` or `InvalidTool` if they cannot work."""

    model: str | Model
    tools: Iterable[Any] = ()
    system: str | None = None
    guidance: str | GuidanceSet = "matrix"
    policy: str | PolicySet | None = None
    max_rounds: int = field(default_factory=settings.max_iterations)
    todos: bool | Board = True
    history: str | History = "auto"
    instructions: bool = True
    max_tool_calls: int | NoLimit | None = None
    max_tool_calls_per_turn: int | NoLimit | None = None
    max_seconds: float | NoLimit | None = None
    max_tokens: int | NoLimit | None = None
    budget: float | NoLimit | None = None
    unpriced: bool = False
    on_limit: OnLimit | None = None
    limits_of_file: Iterable[str] = ()
    work_dir: str | Path | None = None
    name: str = DEFAULT_NAME
    output: Any = None
    gates: Iterable[Gate] = ()
    extensions: Iterable[Extension] = ()
    detect: Detectors | None = None
    approve: Approve | str | None = None
    permissions: Any = None
    limits: Limits = field(init=False, repr=False, compare=False)
    """Its limits, and those of its extensions and its policy where it has none."""
    used_model: str | Model = field(init=False, repr=False, compare=False)
    """Its model, or that of an extension."""
    used_policy: PolicySet = field(init=False, repr=False, compare=False)
    """Its policy, else that of an extension, else `Matrix`."""
    sends: History = field(init=False, repr=False, compare=False)
    """How much of a conversation is sent, according to `history`."""
    toolbox: Toolbox = field(init=False, repr=False, compare=False)
    context: RunContext | None = field(init=False, repr=False, compare=False)
    """The context of its runs, which an extension has; None without one."""
    first_tools: tuple[str, ...] = field(init=False, repr=False, compare=False, default=())
    """The names of the tools that the context of its runs lists first."""
    rule_list: RuleList = field(init=False, repr=False, compare=False)
    """Its rules about tool calls, according to `permissions`."""
    output_form: Output | None = field(init=False, repr=False, compare=False)
    """The form of its answers, according to `output`; None for free text."""
    bundle: PolicyBundle = field(init=False, repr=False, compare=False)
    """Policies, guides and gates."""
    guidance_texts: GuidanceTexts = field(init=False, repr=False, compare=False)
    """Its guidance set, for the log."""
    settings: dict[str, Any] = field(init=False, repr=False, compare=False)
    """The settings that decide the course of a run, as plain data for the log."""

    def __post_init__(self) -> None:
        self._check_kinds()
        self._set("extensions", self._all_extensions())
        self._set("context", context_of(self.extensions))
        model, policy, limits = taken_settings({name: getattr(self, name) for name in _TAKEN}, self.extensions)
        check_model(model)
        self._set("used_model", model)
        self._set("used_policy", policy)
        self._set("limits", limits)
        self._set("tools", tuple(self.tools) if settings.tools_enabled() else ())
        self._set("sends", find_history(self.history))
        of_extensions = each(self.extensions, "tools") if settings.tools_enabled() else ()
        self._set("toolbox", self._in_order(Toolbox((*self.tools, *of_extensions))))
        self._set("rule_list", RuleList.of(self.permissions))
        if not self.toolbox.is_empty:
            self._set("rule_list", known_rules(self.rule_list, self.rule_scope))
            if self.context is not None:
                check_confirms(self.context.confirms([self.context.name]), self.rule_scope)
        self._set("gates", self._checked_gates())
        self._check_names()
        words = find_set(self.guidance)
        repeatable = [tool.spec.name for tool in self.toolbox if getattr(tool, "repeatable", False)]
        self._set("output_form", Output.of(self.output))
        bundle = limits.add_to(rules_of(policy, words, repeatable))
        bundle = extended(bundle, tuple(self.extensions))
        if self.gates:
            bundle = bundle._replace(gates=(*bundle.gates, *map(OnCopy, self.gates)))
        if self.output_form is not None:
            bundle = self.output_form.held(bundle, in_workflow_mode=getattr(policy, "workflow_mode", False))
        self._set("bundle", bundle)
        self._set("settings", self._as_logged(words, policy))
        self._set("guidance_texts", words.as_texts)

    def _as_logged(self, words: GuidanceSet, policy: PolicySet) -> dict[str, Any]:
        """Return the settings for the log."""
        return {
            "guidance": {"set": words.name, "version": words.version},
            "policy": settings_of(policy),
            "todos": self.keeps_todos,
            "history": as_logged(self.sends),
            **self.limits.as_logged(),
            **({} if self.output_form is None else {"output": self.output_form.as_logged}),
            **({"gates": [name_of_gate(gate) for gate in self.gates]} if self.gates else {}),
            **({"extensions": [one.as_logged for one in self.extensions]} if self.extensions else {}),
            **logged_builtins(self.toolbox),
            **({} if self.context is None else self.context.as_logged),
            **({MODEL_FROM: PERSON} if person_chose_destination(self.used_model) else {}),
        }

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _check_kinds(self) -> None:
        """Raise `SettingsError` for a value of the wrong kind."""
        if isinstance(self.tools, str) or not isinstance(self.tools, Iterable):
            raise SettingsError(f"tools={self.tools!r} is not a list", "Write tools=[my_function]")
        if self.system is not None and not isinstance(self.system, str):
            raise SettingsError(f"system={self.system!r} is not a text")
        if self.work_dir is not None and not isinstance(self.work_dir, str | Path):
            raise SettingsError(f"work_dir={self.work_dir!r} is not a folder", "Give a path, or None for the current folder")
        check_approve(self.approve)
        if not isinstance(self.todos, bool) and not is_board(self.todos):
            raise SettingsError(f"todos={self.todos!r} is not a todo board", "Write todos=True, or todos=TodoBoard([...])")

    @property
    def rule_scope(self) -> Iterable[Any]:
        """Its tools and the names that its extensions answer: what rules about its runs may name."""
        return (self.toolbox, *merged(self.extensions, "virtual_tools"))

    def _checked_gates(self) -> tuple[Gate, ...]:
        """Return the gates; raise `SettingsError` if one cannot be called."""
        gates = tuple(self.gates) if isinstance(self.gates, Iterable) else (self.gates,)
        for gate in gates:
            if not callable(gate):
                raise SettingsError(
                    f"gates={gate!r} is not a gate", "A gate is a function of the call and the run: gates=[my_gate]"
                )
        return gates

    def _all_extensions(self) -> tuple[Extension, ...]:
        """Return the extensions, that of its detectors included; a copy of the agent has it already."""
        given = checked_extensions(self.extensions)
        if self.detect is None or any(one.name == DETECTION for one in given):
            return given
        return (*given, detection(self.detect))

    def _in_order(self, toolbox: Toolbox) -> Toolbox:
        """Return the tools with those first that the context of the runs lists first."""
        rules = () if self.context is None else self.context.first
        if not rules:
            return toolbox
        places = {tool.spec.name: [rule.is_about(tool.spec.name, tool) for rule in rules] for tool in toolbox}
        specs = sorted(toolbox.specs, key=lambda spec: [not is_first for is_first in places[spec.name]])
        self._set("first_tools", tuple([spec.name for spec in specs if any(places[spec.name])]))
        return toolbox.advertising(specs)

    def _check_names(self) -> None:
        """Raise `InvalidTool` if a tool has the name of one of agentnb's own tools."""
        if self.keeps_todos and self.toolbox.get(TODO_TOOL) is not None:
            raise InvalidTool(
                f"{TODO_TOOL} is the tool of agentnb's own list", "Give yours another name, or Agent(todos=False)"
            )
        if self.sends.result_characters is not None and self.toolbox.get(READ_TOOL) is not None:
            raise InvalidTool(
                f"{READ_TOOL} is the tool with which a model reads long results",
                'Give yours another name, or Agent(history="full")',
            )

    @property
    def keeps_todos(self) -> bool:
        """Whether its runs have a todo list: it has tools, or a board of its own."""
        return not self.toolbox.is_empty if self.todos is True else self.todos is not False

    @property
    def tool_offer(self) -> ToolOffer:
        """Its name and description as a tool: the first sentence of its system prompt, or a neutral one."""
        is_named = self.name != DEFAULT_NAME
        described = first_sentence(self.system or "") or neutral_description("agent", self.name if is_named else "")
        return ToolOffer(self.name, described, is_named)

    @property
    def model_name(self) -> str:
        """``provider:model``."""
        return str(self.used_model) if isinstance(self.used_model, str) else self.used_model.name
