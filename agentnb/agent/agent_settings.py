"""The settings of an agent. On creation, they are validated, and the values that the agent's runs need are derived."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

from agentnb import settings
from agentnb.errors import SettingsError

if TYPE_CHECKING:
    from agentnb.agent.conversation_context import ConversationContext
    from agentnb.agent.derived_settings import NoLimit
    from agentnb.agent.extension import Extension
    from agentnb.agent.output import Output
    from agentnb.context.history_settings import History
    from agentnb.core.guidance import GuidanceTexts
    from agentnb.detect.run_detectors import Detectors
    from agentnb.guidance import GuidanceSet
    from agentnb.guidance.draws import RandomGuidance
    from agentnb.models.model import Model
    from agentnb.policies.bundle import PolicyBundle
    from agentnb.policies.gates import Gate
    from agentnb.policies.permissions.permission_rules import RuleList
    from agentnb.policies.policy_sets import PolicySet
    from agentnb.policies.run_limits import Limits, OnLimit
    from agentnb.runtime.questions.answerers import Approve
    from agentnb.tools.agent_tool import ToolOffer
    from agentnb.tools.todos.board import Board
    from agentnb.tools.toolbox import Toolbox

DEFAULT_NAME = "agent"
"""Name of an unnamed agent."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The settings of an agent, as documented at `Agent`. Raises `SettingsError` or `InvalidTool` for settings that cannot
    work.
    """

    model: str | Model = ""
    tools: Iterable[Any] = ()
    system: str | None = None
    guidance: str | GuidanceSet | RandomGuidance = "matrix"
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
    acp: str = ""
    mode: str = ""
    limits: Limits = field(init=False, repr=False, compare=False)
    """The agent's limits, completed with those of its extensions and its policy."""
    used_model: str | Model = field(init=False, repr=False, compare=False)
    """The agent's model, or that of an extension."""
    used_policy: PolicySet = field(init=False, repr=False, compare=False)
    """The agent's own policy, or else an extension's, or else `Matrix`."""
    sends: History = field(init=False, repr=False, compare=False)
    """The part of a conversation that is sent, according to `history`."""
    toolbox: Toolbox = field(init=False, repr=False, compare=False)
    context: ConversationContext | None = field(init=False, repr=False, compare=False)
    """The context of the agent's runs, from an extension, or None."""
    first_tools: tuple[str, ...] = field(init=False, repr=False, compare=False, default=())
    """Names of the tools that the context puts first."""
    rule_list: RuleList = field(init=False, repr=False, compare=False)
    """The agent's rules about tool calls, according to `permissions`."""
    output_form: Output | None = field(init=False, repr=False, compare=False)
    """The form of the agent's answers, according to `output`, or None for free text."""
    bundle: PolicyBundle = field(init=False, repr=False, compare=False)
    """The agent's policies, guides and gates."""
    guidance_texts: GuidanceTexts = field(init=False, repr=False, compare=False)
    """The agent's guidance set, for the log."""
    settings: dict[str, Any] = field(init=False, repr=False, compare=False)
    """The settings that affect the course of a run, as plain data for the log."""

    def __post_init__(self) -> None:
        from agentnb.agent.derived_settings import derive_settings

        derive_settings(self)

    def __reduce__(self) -> NoReturn:
        problem = f"Agent {self.name} cannot be pickled, because its tools and model would not work in another process"
        raise SettingsError(problem, "Send portable(agent), and recreate it there: from_portable(data)")

    def __copy__(self) -> Self:
        return self  # stateless

    def __deepcopy__(self, _: Any) -> Self:
        return self

    @property
    def rule_scope(self) -> Iterable[Any]:
        """Names that rules about the agent's runs may use: its tools, and the virtual tools of its extensions."""
        from agentnb.agent.extension import merge_part

        return (self.toolbox, *merge_part(self.extensions, "virtual_tools"))

    @property
    def keeps_todos(self) -> bool:
        """True if the agent's runs have a todo list: it has tools, or its own board."""
        return not self.toolbox.is_empty if self.todos is True else self.todos is not False

    @property
    def tool_offer(self) -> ToolOffer:
        """The agent's name, and its description as a tool: the first sentence of its system prompt, or a neutral one."""
        from agentnb.tools.agent_tool import ToolOffer, first_sentence, neutral_description

        is_named = self.name != DEFAULT_NAME
        description = first_sentence(self.system or "") or neutral_description("agent", self.name if is_named else "")
        return ToolOffer(self.name, description, is_named)

    @property
    def model_name(self) -> str:
        """Name of the model, as ``provider:model``."""
        return str(self.used_model) if isinstance(self.used_model, str) else self.used_model.name
