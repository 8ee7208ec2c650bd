"""The commands of a shell, by kind of advice."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from agentnb import advice as a
from agentnb.display.texts.notebook_commands import OPTIONS


def _needed(tools: Iterable[str] = (), gates: Iterable[str] = (), by: a.Invocation | None = None) -> str:
    """Return the options that give a run that is resumed its tools and gates; empty if its command named them."""
    if by is not None and by.surface == "shell":
        return ""
    options = [("--tools", name) for name in tools] + [("--gate", name) for name in gates]
    return "".join(f" {option} MODULE:{name}" for option, name in options)


def _answer(advice: a.AnswerRun) -> str | a.Plain:
    if advice.is_live or not advice.run:
        return a.Plain("Answer it where it runs")
    question = f" --question {advice.question}" if advice.question else ""
    text = shlex.quote(advice.text) if advice.text else "TEXT"
    return f"agentnb answer {advice.run} {text}{question}{_needed(advice.tools, advice.gates, advice.by)}"


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
    a.RecoverRun: lambda one: f"agentnb recover {one.run}{_needed(one.tools, one.gates, one.by)}",
    a.AnswerRun: _answer,
    a.StopRun: lambda _: "",
    a.LoadRun: lambda one: f"agentnb show {one.run}",
    a.ListRuns: lambda _: "agentnb runs",
    a.ReplayRun: lambda one: f"agentnb replay {one.run} -g matrix -p matrix" if one.run else None,
    a.LoadTraces: lambda one: f"agentnb runs {one.path}",
    a.ReadLoosely: lambda _: "--loose",
    a.ListProblems: lambda _: None,
    a.SetKey: lambda one: f"export {one.variable}=...",
    a.AcceptServer: lambda one: f"agentnb accept {one.name} --mcp FILE",
    a.AddServer: lambda one: "--mcp FILE",
    a.LogInToServer: lambda one: f"agentnb login {one.words} --mcp FILE",
    a.SetModel: lambda one: a.Plain("Name another: -m MODEL") if one.again else f"-m {one.name}",
    a.SetDefaultModel: lambda one: f"export AGENTNB_MODEL={one.name}",
    a.ShowModels: lambda _: None,
    a.ShowRequest: lambda _: None,
    a.GiveTools: lambda one: f"--tools {','.join(f'MODULE:{name}' for name in one.names)}",
    a.GiveGates: lambda one: _needed(gates=one.names).strip(),
    a.GiveAgent: lambda _: a.Plain("Declare it under agents:"),
    a.WriteGuidance: lambda _: None,
    a.FreeDisk: lambda _: a.Plain("See that the disk has room"),
}
"""The commands of a shell."""
