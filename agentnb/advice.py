"""Advice on what to do next, as values in errors, warnings and logs, with a table of commands for each surface.

Advice is a command surrounded by plain text: ``lead``, the command, ``rest``. Each surface has a table that maps each kind of
advice to its command: empty if the plain text suffices, None if the surface cannot follow the advice and omits it. The table
for Python is here; those for notebooks and shells are `agentnb.display.texts.notebook_commands` and
`agentnb.cli.shell_commands`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

USUAL_OUT = "run"
"""Default variable for a cell's run."""


class Invocation(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """The options of the cell or command that started a run, as typed. Commands that continue the run repeat them."""

    surface: Literal["notebook", "shell", "python"] = "notebook"
    """``python`` is never logged: a run that Python started has no invocation."""
    out: str = ""
    """The variable that receives the run."""
    model: str = ""
    tools: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    guidance: str = ""
    inputs: str = ""
    approve: str = ""
    """The option ``--approve``, except ``auto``: a command never repeats a permission."""
    rules: tuple[str, ...] = ()
    """The permission rules, except those that allow."""
    allowed: bool = False
    """True if the person typed ``--approve auto`` or a rule that allows."""


class Advice(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="do", kw_only=True, gc=False):
    """Advice: a command surrounded by plain text."""

    lead: str = ""
    """Text before the command."""
    rest: str = ""
    """Text after the command, including the punctuation mark or space before it."""


class Plain(Advice, frozen=True, tag="plain"):
    """Advice with the same text on every surface."""

    text: str


class TryAgain(Advice, frozen=True, tag="try_again"):
    """Repeat the failed operation: continue the conversation, or rerun the step or file."""

    tools: tuple[str, ...] = ()
    by: Invocation | None = None


class ContinueRun(Advice, frozen=True, tag="continue_run"):
    """Continue the conversation of a run."""

    run: str = ""
    """Its id, if it must be loaded first."""
    tools: tuple[str, ...] = ()
    limit: str = ""
    """Name of the limit to increase."""
    value: float = 0.0
    """The new value of that limit."""
    todo: str = ""
    """The blocked todo to reopen first; ``ID`` if there are several."""
    by: Invocation | None = None


class StartAgain(Advice, frozen=True, tag="start_again"):
    """Start a new conversation."""


class RerunSteps(Advice, frozen=True, tag="rerun_steps"):
    """Start a new run of a workflow from one of its steps."""

    step: str = "STEP"
    limit: str = ""
    value: float = 0.0
    by: Invocation | None = None


class RecoverRun(Advice, frozen=True, tag="recover_run"):
    """Resume a run whose process died."""

    run: str
    """Its id; empty for the most recent run."""
    tools: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    by: Invocation | None = None
    in_new_kernel: bool = False
    """True if the command will be typed in a kernel that has not loaded agentnb yet."""


class AnswerRun(Advice, frozen=True, tag="answer_run"):
    """Answer the question that a run is waiting on."""

    run: str = ""
    """Its id; empty for the run waiting here."""
    question: str = ""
    tools: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    by: Invocation | None = None
    text: str = ""
    """A valid answer; empty if the person is to write it."""
    is_live: bool = False
    """True if the run is still live in its process and can be answered there."""


class StopRun(Advice, frozen=True, tag="stop_run"):
    """Stop a running run."""

    run: str


class LoadRun(Advice, frozen=True, tag="load_run"):
    """View a stored run."""

    run: str


class ListRuns(Advice, frozen=True, tag="list_runs"):
    """List the stored runs."""


class ReplayRun(Advice, frozen=True, tag="replay_run"):
    """Replay a run with the ``matrix`` guidance and policy."""

    run: str = ""
    """Its id; empty if there is no store."""
    variable: str = "run"
    """Expression that evaluates to the run."""
    by: Invocation | None = None


class LoadTraces(Advice, frozen=True, tag="load_traces"):
    """Load the runs of a file or folder."""

    path: str


class ReadLoosely(Advice, frozen=True, tag="read_loosely"):
    """Read the readable parts of a damaged file."""

    path: str = ""
    """The file as the person named it, if known."""


class ListProblems(Advice, frozen=True, tag="list_problems"):
    """List everything skipped on loading."""


class NameOne(Advice, frozen=True, tag="name_one"):
    """Use one of these names in place of an unknown name."""

    similar: tuple[str, ...] = ()
    """The known names most similar to the unknown name."""
    known: tuple[str, ...] = ()
    """All known names, or the first few of them."""
    more: int = 0
    """Number of known names missing from ``known``."""


class SetKey(Advice, frozen=True, tag="set_key"):
    """Set the API key of this variable."""

    variable: str


class AddServer(Advice, frozen=True, tag="add_server"):
    """Configure an MCP server."""

    name: str = "NAME"


class AcceptServer(Advice, frozen=True, tag="accept_server"):
    """Accept an MCP server and its tools in their current state, so that rules apply to them again."""

    name: str = "NAME"


class LogInToServer(Advice, frozen=True, tag="log_in_to_server"):
    """Log in to an MCP server; ``scope``: additional permissions that it requires; ``client``: a client id."""

    name: str = "NAME"
    scope: str = ""
    client: str = ""

    @property
    def words(self) -> str:
        """The arguments of the command."""
        return " ".join(filter(None, (self.name, self.client and f"--client={self.client}", self.scope)))


class SetModel(Advice, frozen=True, tag="set_model"):
    """Name a model; ``again``: pass the model object of a recovered run again."""

    name: str = "NAME"
    again: bool = False
    cell: str = "agent"
    """The magic of the cell that lacks a model."""


class SetDefaultModel(Advice, frozen=True, tag="set_default_model"):
    """Name a model once, for all runs."""

    name: str


class ShowModels(Advice, frozen=True, tag="show_models"):
    """Show the models of a provider, or the providers."""

    provider: str = ""
    url: str = ""


class ShowRequest(Advice, frozen=True, tag="show_request"):
    """Show the request to the model."""


class GiveTools(Advice, frozen=True, tag="give_tools"):
    """Define these tools and pass them; ``resumes``: pass them to the run to be resumed."""

    names: tuple[str, ...] = ("NAME",)
    resumes: bool = False


class GiveGates(Advice, frozen=True, tag="give_gates"):
    """Define these gates and pass all of the run's gates when resuming it."""

    missing: tuple[str, ...]
    names: tuple[str, ...]


class GiveAgent(Advice, frozen=True, tag="give_agent"):
    """Pass an agent named by a workflow; ``resumes``: pass it to the run to be resumed."""

    name: str
    resumes: bool = False


class WriteGuidance(Advice, frozen=True, tag="write_guidance"):
    """Write the guidance set with this name; ``resumes``: it belongs to the run to be resumed."""

    name: str
    resumes: bool = False


class AllowUrls(Advice, frozen=True, tag="allow_urls"):
    """Allow calls to these destinations."""

    urls: tuple[str, ...]


class TrustLog(Advice, frozen=True, tag="trust_log"):
    """Accept the answers in a log as the person's own, or have the questions asked again."""

    trust: bool


class AskInstead(Advice, frozen=True, tag="ask_instead"):
    """Ask about calls that the mode would deny."""


class CountAsFree(Advice, frozen=True, tag="count_as_free"):
    """Treat calls to a model without a price as free."""


class RaiseSessionBudget(Advice, frozen=True, tag="raise_session_budget"):
    """Raise the session's budget."""

    budget: float


class Install(Advice, frozen=True, tag="install"):
    """Install a package."""

    package: str
    upgrade: bool = False


class TryDetector(Advice, frozen=True, tag="try_detector"):
    """Run a detector on the run."""


class WriteExpression(Advice, frozen=True, tag="write_expression"):
    """Write an expression in the supported syntax, using paths such as this one."""

    path: str


class FreeDisk(Advice, frozen=True, tag="free_disk"):
    """Free disk space and run again: the run is still in memory."""


AnyAdvice: TypeAlias = (
    Plain
    | TryAgain
    | ContinueRun
    | StartAgain
    | RerunSteps
    | RecoverRun
    | AnswerRun
    | StopRun
    | LoadRun
    | ListRuns
    | ReplayRun
    | LoadTraces
    | ReadLoosely
    | ListProblems
    | NameOne
    | SetKey
    | AcceptServer
    | AddServer
    | LogInToServer
    | SetModel
    | SetDefaultModel
    | ShowModels
    | ShowRequest
    | GiveTools
    | GiveGates
    | GiveAgent
    | WriteGuidance
    | AllowUrls
    | TrustLog
    | AskInstead
    | CountAsFree
    | RaiseSessionBudget
    | Install
    | TryDetector
    | WriteExpression
    | FreeDisk
)
"""All kinds of advice, as stored in logs."""
Advised: TypeAlias = str | AnyAdvice | tuple[AnyAdvice, ...]
"""Advice as callers pass it: a string is plain advice; an empty string means none."""
Commands: TypeAlias = Mapping[type[Any], Callable[[Any], str | tuple[str | Plain, ...] | Plain | None]]
"""A surface's table: for each kind of advice, the command (empty or None as above), several commands to type in order
with plain text after them, or plain advice instead."""
THEN = ", then "


class Command(str):
    """A command to type, which pages mark as code."""

    __slots__ = ()


def as_advice(advice: Advised) -> tuple[AnyAdvice, ...]:
    """Return advice as a tuple of values."""
    if isinstance(advice, str):
        return (Plain(advice),) if advice else ()
    return advice if isinstance(advice, tuple) else (advice,)


def sentences(what: str, hint: str) -> str:
    """Join a problem and its hint on one line."""
    if not hint:
        return what
    return f"{what} {hint}" if what.endswith((".", "?", "!")) else f"{what}. {hint}"


def pieces(what: str, advice: Iterable[AnyAdvice], commands: Commands) -> list[str]:
    """Return a problem and its advice, worded for a surface, as the pieces of a line; each command is a separate piece."""
    return with_advice([what] if what else [], advice, commands)


def with_advice(line: list[str], advice: Iterable[AnyAdvice], commands: Commands) -> list[str]:
    """Append the pieces of the advice to those of a line."""
    for item in advice:
        if words := _pieces(item, commands):
            last, sign = "".join(line[-1:]), " " if line and line[-1].endswith((".", "?", "!")) else ". "
            before = [] if not line else [Command(last), sign] if isinstance(line[-1], Command) else [f"{last}{sign}"]
            line = [*line[:-1], *before, *words]
    return line


def _pieces(advice: AnyAdvice, commands: Commands) -> list[str]:
    """Split advice into its text and its commands; empty if the surface omits it."""
    command = advice if isinstance(advice, Plain) else commands[type(advice)](advice)
    if isinstance(command, Plain):
        return [command.text]
    if command is None:
        return []
    typed_commands = (command,) if isinstance(command, str) else command
    command_pieces = [
        piece
        for part in typed_commands
        if part
        for piece in ((part.text,) if isinstance(part, Plain) else (THEN, Command(part)))
    ][1:]
    lead = f"{advice.lead}: " if advice.lead and command_pieces else advice.lead
    return [piece for piece in (lead, *command_pieces, advice.rest) if piece]


def in_words(advice: Iterable[AnyAdvice], commands: Commands) -> str:
    """Return advice, worded for a surface, on one line."""
    return "".join(pieces("", advice, commands))


def in_python(advice: Iterable[AnyAdvice]) -> str:
    """Return advice, worded for Python."""
    return in_words(advice, PYTHON)


def python_list(names: Iterable[str]) -> str:
    """Format names as a Python list."""
    return f"[{', '.join(names)}]"


def _names(advice: NameOne) -> Plain:
    """Return a question that suggests similar names or, without any, a list of all names, preceded by ``lead`` if set."""
    if advice.similar:
        return Plain(f"Did you mean {' or '.join(advice.similar)}?")
    names = ", ".join(advice.known) + (f" and {advice.more} more" if advice.more else "")
    return Plain(f"{advice.lead} {names}" if advice.lead else f"Available: {names}.")


def _answer(advice: AnswerRun) -> str:
    if not advice.run:
        return f"live.answer({f'{advice.text!r}' if advice.text else 'TEXT'})"
    answer = f"{advice.text!r}" if advice.text else "..."
    return f"await recover({advice.run!r}, answers={{{f'{advice.question!r}' if advice.question else 'ID'}: {answer}}})"


def replay_call(advice: ReplayRun) -> str:
    """Return the expression that replays a run and produces the sentences about it."""
    return f'replay({advice.variable}, guidance="matrix", policy="matrix").sentence'


PYTHON: Commands = {
    TryAgain: lambda _: "agent.run(PROMPT, continue_from=run)",
    ContinueRun: lambda _: "agent.run(PROMPT, continue_from=run)",
    StartAgain: lambda _: "a run without continue_from",
    RerunSteps: lambda one: f"wf.run(rerun_from={'STEP' if one.step == 'STEP' else repr(one.step)}, of=run)",
    RecoverRun: lambda one: f"await recover({one.run!r})",
    AnswerRun: _answer,
    StopRun: lambda _: "live.stop()",
    LoadRun: lambda one: f"Store(FOLDER).load({one.run!r})",
    ListRuns: lambda _: "Store(FOLDER).ids()",
    ReplayRun: replay_call,
    LoadTraces: lambda one: f"load_traces({one.path!r})",
    ReadLoosely: lambda _: "load_traces(..., strict=False)",
    ListProblems: lambda _: "load_traces(...).problems",
    NameOne: _names,
    SetKey: lambda one: f'os.environ["{one.variable}"] = ...',
    AcceptServer: lambda _: None,
    AddServer: lambda one: f"tools=[MCPServer({one.name!r}, COMMAND)]",
    LogInToServer: lambda one: f"%agent mcp login {one.words}",  # for a notebook, since a person is needed
    SetModel: lambda one: "recover(run, model=...)" if one.again else f"model={one.name!r}",
    SetDefaultModel: lambda one: f'os.environ["AGENTNB_MODEL"] = "{one.name}"',
    ShowModels: lambda one: f"{'the' if one.lead else 'The'} documentation of {one.provider or 'agentnb'}",
    ShowRequest: lambda _: "agent.first_request(PROMPT)",
    GiveTools: lambda one: (
        f"recover(run, tools={python_list(one.names)})" if one.resumes else f"tools={python_list(one.names)}"
    ),
    GiveGates: lambda one: f"recover(run, gates={python_list(one.names)})",
    GiveAgent: lambda one: (
        f'recover(run, agents={{"{one.name}": ...}})' if one.resumes else f'agents={{"{one.name}": Agent(...)}}'
    ),
    WriteGuidance: lambda one: (
        "recover(run, agent=Agent(...))" if one.resumes else f"GuidanceSet.from_markdown({one.name!r}, TEXT)"
    ),
    AllowUrls: lambda one: f"allow_urls={[*one.urls]}",
    TrustLog: lambda one: f"trust_log={one.trust}",
    AskInstead: lambda _: 'approve="ask"',
    CountAsFree: lambda _: "Agent(unpriced=True)",
    RaiseSessionBudget: lambda _: "session_budget=",
    Install: lambda one: f"pip install {'--upgrade ' if one.upgrade else ''}{quote_for_shell(one.package)}",
    TryDetector: lambda _: "detect.findings(run, [...])",
    WriteExpression: lambda one: (
        f'Write paths such as {one.path}, len(x), comparisons, x in y, arithmetic, && || !, "strings", true, false, null'
    ),
    FreeDisk: lambda _: Plain("The run is still in memory; free some disk space and run it again"),
}
"""The commands for Python."""


def quote_for_shell(package: str) -> str:
    """Quote a package name for a shell."""
    return package if package.isidentifier() else f"'{package}'"


class AdvisedWarning(UserWarning):
    """A Python warning with advice as values, so that each surface can word it."""

    def __init__(self, what: str, advice: Advised = "") -> None:
        super().__init__(what, advice)
        self.what = what
        self.advice = as_advice(advice)

    def text_for(self, commands: Commands) -> str:
        """Return the warning and its advice, worded for a surface."""
        return "".join(pieces(self.what, self.advice, commands))

    def __str__(self) -> str:
        return self.text_for(PYTHON)
