"""Approval modes: how much of what a run does needs the person's permission, whatever its agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from agentnb.advice import AnyAdvice, AskInstead, Plain
from agentnb.core.approvals import ASK, AUTO, MODES, NEVER, READ_ONLY, arguments_as_json
from agentnb.core.grants import ALWAYS, ASKED_BY_MODE
from agentnb.core.messages import ToolCall
from agentnb.detect.run import Run
from agentnb.detect.so_far import RunSoFar
from agentnb.errors import SettingsError, near
from agentnb.policies.gates.verdicts import Ask, Deny, Gate
from agentnb.tools.tool import Tool

SETTING = "approve"
"""The key under which the settings of a run hold its mode, unless that is ``auto``."""
MAX_SHOWN = 300
"""Characters of the arguments in the text of a question."""

FindTool: TypeAlias = Callable[[str], Tool | None]


@dataclass(frozen=True, slots=True)
class ApprovalMode:
    """The mode of a run. A nested run has its own and that of each run around it, of which nothing is lost."""

    asks: bool = False
    """Before calls of tools that do more than read."""
    never_asks: bool = False
    """Whether a question of any gate is a denial."""
    only_reads: bool = False
    """Whether calls of tools that do more than read are denied."""

    @classmethod
    def of(cls, words: str) -> ApprovalMode:
        """Return the mode of a word, or of several as a log has them; raise `SettingsError`, with the modes, for others."""
        if words == AUTO:
            return AUTO_MODE
        each = words.split("+") if isinstance(words, str) else [words]
        for word in each:
            if word not in MODES:
                known = f"Modes are {', '.join(MODES)}"
                raise SettingsError(f"There is no approval mode {word!r}", f"{near(str(word), MODES)} {known}".strip())
        return cls(ASK in each, NEVER in each, READ_ONLY in each)

    @property
    def words(self) -> str:
        """The mode as a log has it: a word, or several joined with ``+``."""
        if self.needs_nothing:
            return AUTO
        held = {ASK: self.asks and not self.only_reads, NEVER: self.never_asks, READ_ONLY: self.only_reads}
        return "+".join(word for word, holds in held.items() if holds)

    @property
    def needs_nothing(self) -> bool:
        """Whether it is that of a run that was given none: what no gate holds up, runs."""
        return not (self.asks or self.never_asks or self.only_reads)

    def within(self, outer: ApprovalMode) -> ApprovalMode:
        """Return the mode of a run with this mode that is nested in a run with another: what either forbids is forbidden."""
        if outer.needs_nothing:
            return self
        return ApprovalMode(self.asks or outer.asks, self.never_asks or outer.never_asks, self.only_reads or outer.only_reads)

    def gate(self, find: FindTool, runs_around: Sequence[Run] = ()) -> Gate | None:
        """Return the gate of a run with this mode, if it needs one.

        ``find`` returns the tool of a name; ``runs_around``: the runs that this one is nested in, where "always" holds too.
        """
        return EffectsGate(find, self.only_reads, tuple(runs_around)) if self.asks or self.only_reads else None


AUTO_MODE = ApprovalMode()
"""The mode of runs that were given none."""


@dataclass(frozen=True, slots=True)
class EffectsGate:
    """Asks about each call of a tool that does more than read, or denies it.

    A tool that does not say what it does is taken to do more. Those that agentnb adds to a run, such as the todo tool and
    ``ask_person``, do nothing to the world, or read.
    """

    find: FindTool
    denies: bool
    runs_around: tuple[Run, ...] = ()

    def __call__(self, call: ToolCall, run: RunSoFar) -> Ask | Deny | None:
        """Return the question, the denial, or None for a call that may run."""
        tool = self.find(call.name)
        if tool is None or may_only_read(tool):  # the model is told that there is no such tool
            return None
        if self.denies:
            return Deny(f"this run only allows tools that read (approve={READ_ONLY}). {_about(tool)}", READ_ONLY)
        if any(one.has_grant(call.name) for one in (run, *self.runs_around)):
            return None
        return Ask(
            f'May {call.name} run with {shown(call.arguments)}?\n{_about(tool)} "{ALWAYS}" allows all its calls.',
            ASKED_BY_MODE,
            (ALWAYS,),
        )


def may_only_read(tool: Tool) -> bool:
    """Return whether a tool declares that it does nothing to the world but read it."""
    effects = declared_effects(tool)
    return effects is not None and set(effects) <= {"read"}


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


def declared_effects(tool: Tool) -> Iterable[str] | None:
    """Return the effects that a tool declares; None if it declares none."""
    return getattr(tool, "effects", None)  # anybody's class may be a tool
