"""The commands of a notebook, by kind of advice: what cells, cards and lists show of what to do next.

It lies in display, not above it, because cards and saved pages are made there: no other text below `session` names a magic.
"""

from __future__ import annotations

from collections.abc import Iterable

from agentnb import advice as a
from agentnb.errors import AgentnbError
from agentnb.policies.limits import LIMITS, SESSION_BUDGET
from agentnb.settings import KEY_VARIABLES

MAX_OF_TOOLS = 40
"""Characters of the names of tools in a command."""


def in_notebook(advice: Iterable[a.AnyAdvice]) -> str:
    """Return advice in the words of a notebook."""
    return a.in_words(advice, NOTEBOOK)


def error_in_notebook(error: AgentnbError) -> str:
    """Return an error in the words of a notebook."""
    return error.worded(NOTEBOOK)


def _raised(advice: a.ContinueRun | a.RerunSteps) -> str:
    """Return the option that raises a limit; empty if none is raised."""
    return f" {LIMITS[advice.limit].option} {advice.value:g}" if advice.limit in LIMITS else ""


def _continue(advice: a.ContinueRun) -> tuple[str, ...]:
    names = " ".join(advice.tools)
    tools = f" -t {names if len(names) <= MAX_OF_TOOLS else 'TOOLS'}" if names else ""
    first = [f"%agent load {advice.run}"] if advice.run else []
    first += [f"%agent todos open {advice.todo}"] if advice.todo else []
    return (*first, *_session_budget(advice), f"%%agent --continue{tools}{_raised(advice)}")


def _rerun(advice: a.RerunSteps) -> tuple[str, ...]:
    return (*_session_budget(advice), f"%%workflow --rerun-from {advice.step}{_raised(advice)}")


def _session_budget(advice: a.ContinueRun | a.RerunSteps) -> list[str]:
    is_spent = advice.limit == SESSION_BUDGET.name
    return [f"%agent defaults session-budget={advice.value:g}"] if is_spent else []


def _answer(advice: a.AnswerRun) -> str:
    return " ".join(filter(None, ["%agent answer", advice.run, advice.question, "TEXT"]))


def _key(advice: a.SetKey) -> str:
    names = {variable: provider for provider, variable in reversed(KEY_VARIABLES.items())}
    return f"%agent key {names.get(advice.variable, advice.variable)}"


def _models(advice: a.ShowModels) -> str:
    return f"%agent models {advice.provider}{f'?url={advice.url}' if advice.url else ''}".rstrip()


OPTIONS: a.Commands = {
    a.AllowUrls: lambda one: " ".join(f"--allow-url '{url}'" for url in one.urls),
    a.TrustLog: lambda one: "--trust-log" if one.trust else "--no-trust-log",
    a.AskInstead: lambda _: "--approve ask",
    a.CountAsFree: lambda _: "--unpriced",
}
"""The options that cells and commands of a shell have in common."""
NOTEBOOK: a.Commands = {
    **a.PYTHON,
    **OPTIONS,
    a.TryAgain: lambda _: "%%agent --continue",
    a.ContinueRun: _continue,
    a.StartAgain: lambda _: "a cell without --continue",
    a.RerunSteps: _rerun,
    a.RecoverRun: lambda one: f"%agent recover {one.run}".rstrip(),
    a.AnswerRun: _answer,
    a.StopRun: lambda one: f"%agent stop {one.run}",
    a.LoadRun: lambda one: f"%agent load {one.run}",
    a.ListRuns: lambda _: "%agent history",
    a.ReadLoosely: lambda one: f"%traces {one.path} --loose" if one.path else "load_traces(..., strict=False)",
    a.SetKey: _key,
    a.SetModel: lambda one: "-m VARIABLE" if one.again else f"%%agent -m {one.name}",
    a.SetDefaultModel: lambda one: f"%agent defaults model={one.name}",
    a.ShowModels: _models,
    a.ShowRequest: lambda _: "%%agent --dry",
    a.GiveTools: lambda one: f"-t {' '.join(one.names)}",
    a.GiveGates: lambda one: f"--gate {','.join(one.names)}",
    a.GiveAgent: lambda one: f"{one.name} = Agent(...)",
    a.WriteGuidance: lambda one: f"%%guidance {one.name}",
    a.RaiseSessionBudget: lambda one: f"%agent defaults session-budget={one.budget:g}",
    a.FreeDisk: lambda _: a.Plain("The run is still in memory; see that the disk has room and run the cell again"),
    a.Install: lambda one: f"%{a.PYTHON[a.Install](one)}",
}
"""The commands of a notebook."""
