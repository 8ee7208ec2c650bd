"""Approval modes: how much of what a run does needs the person's permission, whatever its agent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from agentnb.advice import AnyAdvice, AskInstead, Plain
from agentnb.core.messages import ToolCall
from agentnb.core.run.approvals import ALWAYS, ASK, ASKED_BY_RULES, AUTO, MODES, NEVER, READ_ONLY, arguments_as_json
from agentnb.detect.so_far import RunSoFar
from agentnb.errors import SettingsError, near
from agentnb.policies.gates.rules import PRESETS, RuleVerdict, declared_effects, verdict_of
from agentnb.policies.gates.verdicts import Ask, Deny, Gate
from agentnb.tools.tool import Tool

SETTING = "approve"
"""The key under which the settings of a run hold its mode, unless that is ``auto``."""
MAX_SHOWN = 300
"""Characters of the arguments in the text of a question."""

STRICTEST_FIRST: tuple[RuleVerdict, ...] = ("deny", "ask", "allow")
FindTool: TypeAlias = Callable[[str], Tool | None]


@dataclass(frozen=True, slots=True)
class ApprovalMode:
    """The mode of a run: its own word and those of the runs around it, each with its rules (`rules.PRESETS`)."""

    held: tuple[str, ...] = ()
    """In the order of `MODES`, without ``auto``."""

    @classmethod
    def of(cls, words: str) -> ApprovalMode:
        """Return the mode of a word, or of several as a log has them; raise `SettingsError`, with the modes, for others."""
        if words == AUTO:
            return AUTO_MODE
        each = words.split("+") if isinstance(words, str) else [words]
        for word in each:
            if word not in MODES:
                known = Plain(f"Modes are {', '.join(MODES)}")
                raise SettingsError(f"There is no approval mode {word!r}", (*near(str(word), MODES), known))
        implied = {AUTO, ASK} if READ_ONLY in each else {AUTO}  # what it would ask about is denied
        return cls(tuple([word for word in MODES if word in each and word not in implied]))

    @property
    def words(self) -> str:
        """The mode as a log has it: a word, or several joined with ``+``."""
        return "+".join(self.held) or AUTO

    @property
    def needs_nothing(self) -> bool:
        """True for the default mode, ``auto``."""
        return not self.held

    @property
    def asks(self) -> bool:
        """Whether its rules ask about some calls."""
        return ASK in self.held

    def within(self, outer: ApprovalMode) -> ApprovalMode:
        """Return the mode of a run with this mode that is nested in a run with another: what either forbids is forbidden."""
        return ApprovalMode.of("+".join([*self.held, *outer.held]) or AUTO)

    def verdict(self, name: str, tool: Tool | None, *, is_asked: bool = False) -> RuleVerdict:
        """Return the strictest verdict about a call of this tool. ``is_asked``: another gate asks about the call."""
        verdicts = [verdict_of(PRESETS[word], name, tool, is_asked=is_asked) for word in self.held]
        return next((verdict for verdict in STRICTEST_FIRST if verdict in verdicts), "allow")

    def gate(self, find: FindTool) -> Gate | None:
        """Return the gate of a run with this mode, if it needs one. ``find`` returns the tool of a name."""
        return ModeGate(self, find) if any(word != NEVER for word in self.held) else None


AUTO_MODE = ApprovalMode()
"""The mode of runs that were given none."""


class AskByMode(Ask):
    """The question of a mode: only its answer "always" is a grant, whatever the rule of another gate's question is called."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ModeGate:
    """Judges each call by the rules of a mode.

    A tool that does not say what it does is taken to do more than read. Those that agentnb adds to a run, such as the todo tool
    and ``ask_person``, do nothing to the world, or read.
    """

    mode: ApprovalMode
    find: FindTool

    def __call__(self, call: ToolCall, run: RunSoFar) -> Ask | Deny | None:
        """Return the question, the denial, or None for a call that may run."""
        tool = self.find(call.name)
        if tool is None:  # the model is told that there is no such tool
            return None
        verdict = self.mode.verdict(call.name, tool)
        if verdict == "deny":
            return Deny(f"this run only allows tools that read (approve={READ_ONLY}). {_about(tool)}", READ_ONLY)
        if verdict == "allow" or run.has_grant(call.name):
            return None
        return AskByMode(
            f'May {call.name} run with {shown(call.arguments)}?\n{_about(tool)} "{ALWAYS}" allows all its calls.',
            ASKED_BY_RULES,
            (ALWAYS,),
        )


def advice_on_denial(tool: Tool) -> tuple[AnyAdvice, ...]:
    """Return what a person can do about a tool that this mode denies: declare what it does, or be asked."""
    ask = AskInstead(lead="To be asked about it instead")
    declare = Plain('If it only reads, say so: @tool(effects=["read"])')
    return (declare, ask) if declared_effects(tool) is None else (ask,)


def shown(arguments: Any) -> str:
    """Return the arguments of a call for a question: whole, or only their length, as a part would look like the whole.

    The question holds all of them besides (`core.questions.JudgedCall`).
    """
    text = arguments_as_json(arguments)
    return text if len(text) <= MAX_SHOWN else f"arguments of {len(text):,} characters"


def _about(tool: Tool) -> str:
    effects = declared_effects(tool)
    if effects is None:
        return f"{tool.spec.name} does not declare what it does."
    return f"{tool.spec.name} may: {', '.join(sorted(effects))}."
