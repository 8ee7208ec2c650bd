"""The shell command for each kind of advice."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from agentnb import advice as a
from agentnb.display.texts.notebook_commands import OPTIONS


def _format_resume_options(tools: Iterable[str] = (), gates: Iterable[str] = (), by: a.Invocation | None = None) -> str:
    """Return the options that supply the tools and gates of a resumed run; empty if its original command named them."""
    if by is not None and by.surface == "shell":
        return ""
    options = [("--tools", name) for name in tools] + [("--gate", name) for name in gates]
    return "".join(f" {option} MODULE:{name}" for option, name in options)


def _answer(advice: a.AnswerRun) -> str | a.Plain:
    if advice.is_live or not advice.run:
        return a.Plain("Answer it where it is running")
    question = f" --question {advice.question}" if advice.question else ""
    text = shlex.quote(advice.text) if advice.text else "TEXT"
    return f"agentnb answer {advice.run} {text}{question}{_format_resume_options(advice.tools, advice.gates, advice.by)}"


def _give_tools(advice: a.GiveTools) -> str:
    option = f"--tools {','.join(f'MODULE:{name}' for name in advice.names)}"
    return f"{option}, for MODULE.py in this folder; or in the run's notebook: %agent answer ID" if advice.resumes else option


def _exec_again(advice: a.RerunSteps) -> a.Plain:
    budget = f" --budget {advice.value:g}" if advice.limit == "budget" else ""
    return a.Plain(f"Run it again: agentnb exec FILE{budget}")


SHELL: a.Commands = {
    **a.PYTHON,
    **OPTIONS,
    a.TryAgain: lambda _: "",
    a.ContinueRun: lambda _: None,
    a.StartAgain: lambda _: "",
    a.RerunSteps: _exec_again,
    a.RecoverRun: lambda advice: f"agentnb recover {advice.run}{_format_resume_options(advice.tools, advice.gates, advice.by)}",
    a.AnswerRun: _answer,
    a.StopRun: lambda _: "",
    a.LoadRun: lambda advice: f"agentnb show {advice.run}",
    a.ListRuns: lambda _: "agentnb runs",
    a.ReplayRun: lambda advice: f"agentnb replay {advice.run} -g matrix -p matrix" if advice.run else None,
    a.LoadTraces: lambda advice: f"agentnb runs {advice.path}",
    a.ReadLoosely: lambda _: "--loose",
    a.ListProblems: lambda _: None,
    a.SetKey: lambda advice: f"export {advice.variable}=...",
    a.AcceptServer: lambda advice: f"agentnb accept {advice.name} --mcp FILE",
    a.AddServer: lambda advice: "--mcp FILE",
    a.LogInToServer: lambda advice: f"agentnb login {advice.words} --mcp FILE",
    a.SetModel: lambda advice: a.Plain("Name another: -m MODEL") if advice.again else f"-m {advice.name}",
    a.SetDefaultModel: lambda advice: f"export AGENTNB_MODEL={advice.name}",
    a.ShowModels: lambda _: None,
    a.ShowRequest: lambda _: None,
    a.GiveTools: _give_tools,
    a.GiveGates: lambda advice: _format_resume_options(gates=advice.names).strip(),
    a.GiveAgent: lambda _: a.Plain("Declare it under agents:"),
    a.WriteGuidance: lambda _: None,
    a.FreeDisk: lambda _: a.Plain("Free some disk space"),
}
"""The commands of a shell."""
