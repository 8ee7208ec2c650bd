"""The notebook command for each kind of advice, shown by cells, cards and lists as the next step.

Part of display rather than a layer above it, because display makes cards and saved pages. No other text below `session` names a
magic.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable
from shlex import quote

from msgspec.structs import replace

from agentnb import advice as a
from agentnb.errors import AgentnbError
from agentnb.policies.run_limits import LIMITS, SESSION_BUDGET
from agentnb.settings import KEY_NAMES

MAX_OF_NAMES = 400
"""Maximum characters of the names after an option; a longer list is replaced by a placeholder."""
LEFT_OUT = a.Plain(" (options that allow calls, such as --approve auto and --rule save=allow, are left out: add them yourself)")
LOAD_EXTENSION = "%load_ext agentnb"
CHECK = "%%agent --expect \"'42' in text\""


def in_notebook(advice: Iterable[a.AnyAdvice]) -> str:
    """Return advice as notebook commands."""
    return a.in_words(advice, NOTEBOOK)


def error_in_notebook(error: AgentnbError) -> str:
    """Return an error with advice as notebook commands."""
    return error.text_for(NOTEBOOK)


def is_variable(name: str) -> bool:
    """True if a run can be assigned to a variable with this name."""
    return name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("__")


def _limit_option(advice: a.ContinueRun | a.RerunSteps) -> str:
    """Return the option that raises a limit, or ""."""
    return f" {LIMITS[advice.limit].option} {advice.value:g}" if advice.limit in LIMITS else ""


def _cell_options(by: a.Invocation | None) -> a.Invocation:
    """Return the options of the cell; empty if there is no cell."""
    return by if by is not None and by.surface == "notebook" else a.Invocation()


def _again(advice: a.ContinueRun | a.TryAgain) -> str:
    """Return the options for a cell that continues a conversation, including the model only if it was in a variable."""
    typed = _cell_options(advice.by)
    model = typed.model if typed.model.isidentifier() else ""
    return _options(replace(typed, model=model, inputs="", tools=typed.tools or advice.tools))


def _options(typed: a.Invocation) -> str:
    """Return these options in the form a cell takes, preceded by a space."""
    values = {
        "-t": " ".join(typed.tools) if len(" ".join(typed.tools)) <= MAX_OF_NAMES else "TOOLS",
        "-m": typed.model,
        "-g": typed.guidance,
        "--gate": ",".join(typed.gates),
        "--approve": typed.approve,
        "-i": typed.inputs,
        "-o": typed.out if typed.out != a.USUAL_OUT and is_variable(typed.out) else "",
    }
    rules = [("--rule", quote(rule)) for rule in typed.rules]
    return "".join(f" {option} {value}" for option, value in (*values.items(), *rules) if value)


def _by_python(by: a.Invocation | None) -> bool:
    return by is not None and by.surface == "python"


def _in_cell(advice: a.ContinueRun | a.RerunSteps | a.TryAgain, *commands: str | a.Plain) -> tuple[str | a.Plain, ...]:
    """Return the commands, with a note if they leave out options of the cell; for a run that Python started, which no
    command reaches, its expression.
    """
    if _by_python(advice.by):
        return (str(a.PYTHON[type(advice)](advice)),)
    return (*commands, LEFT_OUT) if _cell_options(advice.by).allowed else commands


def _continue(advice: a.ContinueRun) -> tuple[str | a.Plain, ...]:
    opens = [f"%agent todos open {advice.todo}"] if advice.todo else []
    run_id = f" {advice.run}" if advice.run else ""
    command = f"%%agent --continue{run_id}{_again(advice)}{_limit_option(advice)}"
    return (*_session_budget(advice), *_in_cell(advice, *opens, command))


def _rerun(advice: a.RerunSteps) -> tuple[str | a.Plain, ...]:
    command = f"%%workflow --rerun-from {advice.step}{_options(_cell_options(advice.by))}{_limit_option(advice)}"
    return (*_session_budget(advice), *_in_cell(advice, command, a.Plain(" above the workflow's text")))


def _session_budget(advice: a.ContinueRun | a.RerunSteps) -> list[str]:
    is_spent = advice.limit == SESSION_BUDGET.name
    return [f"%agent defaults session-budget={advice.value:g}"] if is_spent else []


def _model(by: a.Invocation | None) -> str:
    """Return the option with the variable of a run's model, if its cell had one."""
    model = _cell_options(by).model
    return f"-m {model}" if model.isidentifier() else ""


def _recover(advice: a.RecoverRun) -> tuple[str, ...]:
    loads = [LOAD_EXTENSION] if advice.in_new_kernel else []
    return (*loads, " ".join(filter(None, ["%agent recover", advice.run, _model(advice.by)])))


def _answer(advice: a.AnswerRun) -> str:
    return " ".join(filter(None, ["%agent answer", advice.run, _model(advice.by), advice.question, advice.text or "TEXT"]))


def _replay(advice: a.ReplayRun) -> str:
    """Return the magic if the run of a cell is in a variable, or the function call for any other expression or run."""
    is_named = is_variable(advice.variable) and not _by_python(advice.by)
    return f"%replay {advice.variable} -g matrix -p matrix" if is_named else a.replay_call(advice)


def _key(advice: a.SetKey) -> str:
    names = {variable: provider for provider, variable in reversed(KEY_NAMES.items())}
    return f"%agent key {names.get(advice.variable, advice.variable)}"


def _models(advice: a.ShowModels) -> str:
    return f"%agent models {advice.provider}{f'?url={advice.url}' if advice.url else ''}".rstrip()


OPTIONS: a.Commands = {
    a.AllowUrls: lambda one: " ".join(f"--allow-url '{url}'" for url in one.urls),
    a.TrustLog: lambda one: "--trust-log" if one.trust else "--no-trust-log",
    a.AskInstead: lambda _: "--approve ask",
    a.CountAsFree: lambda _: "--unpriced",
}
"""Options that cells and shell commands have in common."""
NOTEBOOK: a.Commands = {
    **a.PYTHON,
    **OPTIONS,
    a.TryAgain: lambda one: _in_cell(one, f"%%agent --continue{_again(one)}"),
    a.ContinueRun: _continue,
    a.StartAgain: lambda _: "a cell without --continue",
    a.RerunSteps: _rerun,
    a.RecoverRun: _recover,
    a.AnswerRun: _answer,
    a.StopRun: lambda one: f"%agent stop {one.run}",
    a.LoadRun: lambda one: f"%agent load {one.run}",
    a.ListRuns: lambda _: "%agent history",
    a.ReplayRun: _replay,
    a.ReadLoosely: lambda one: f"%traces {one.path} --loose" if one.path else "load_traces(..., strict=False)",
    a.SetKey: _key,
    a.AcceptServer: lambda one: f"%agent mcp accept {one.name}",
    a.AddServer: lambda one: f"%agent mcp add {one.name} COMMAND",
    a.SetModel: lambda one: "-m VARIABLE" if one.again else f"%%{one.cell} -m {one.name}",
    a.SetDefaultModel: lambda one: f"%agent defaults model={one.name}",
    a.ShowModels: _models,
    a.ShowRequest: lambda _: "%%agent --dry",
    a.GiveTools: lambda one: f"-t {' '.join(one.names)}",
    a.GiveGates: lambda one: f"--gate {','.join(one.names)}",
    a.GiveAgent: lambda one: f"{one.name} = Agent(...)",
    a.WriteGuidance: lambda one: f"%%guidance {one.name}",
    a.RaiseSessionBudget: lambda one: f"%agent defaults session-budget={one.budget:g}",
    a.FreeDisk: lambda _: a.Plain("The run is still in memory. Free some disk space and run the cell again"),
    a.Install: lambda one: f"%{a.PYTHON[a.Install](one)}",
}
"""The commands of a notebook."""
