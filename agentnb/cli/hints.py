"""Hints as a notebook or Python has them, in the words of the command line."""

from __future__ import annotations

import re
from collections.abc import Callable

from agentnb.agent.from_log import names_of_tools
from agentnb.detect.run import Run
from agentnb.runtime.gate_names import names_of_gates
from agentnb.settings import KEY_VARIABLES


def _export(found: re.Match[str]) -> str:
    return f"export {KEY_VARIABLES.get(found[1], found[1])}=..."


def _gates(match: re.Match[str]) -> str:
    return f"Name {match[1]}: {' '.join(f'--gate MODULE:{name}' for name in match[2].split(', '))}"


def _tools(match: re.Match[str]) -> str:
    return f"Name {match[1]}: --tools {','.join(f'MODULE:{name}' for name in match[2].split())}"


_WORDS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (
        re.compile(r"The run is still in memory; see that the disk has room and run the cell again"),
        "See that the disk has room",
    ),
    (re.compile(r"%agent history lists runs"), "agentnb runs lists them"),
    (re.compile(r"%agent history lists"), "agentnb runs lists"),
    (re.compile(r"What can be read of it: load_traces\(\.\.\., strict=False\)"), "What can be read of it: --loose"),
    (re.compile(r"Load all (?:of them|runs in it) with load_traces\('(.*?)'\)"), r"agentnb runs \1 lists them"),
    (re.compile(r": \.problems has all"), ""),
    (re.compile(r" load_traces\(\.\.\.\)\.problems lists all of them"), ""),
    (re.compile(r"once for all cells: %agent defaults model="), "for all commands: export AGENTNB_MODEL="),
    (re.compile(r"; %agent models shows the providers|%agent models \S+ lists (?:them; |what there is)"), ""),
    (re.compile(r"%agent key ([\w-]+)"), _export),
    (re.compile(r"Continue its conversation: %agent load \S+, then %%agent --continue"), "Its log has its end"),
    (re.compile(r"Begin a new one at one of its steps: %%workflow.*"), "Begin a new one: agentnb exec FILE"),
    (re.compile(r"(?:Then c|C)ontinue(?: it)?(?: with|:) %%workflow --rerun-from \S+"), "Run it again: agentnb exec FILE"),
    (re.compile(r"(?: ?Then c| ?C)ontinue: (?:%agent \S+ \S+(?: \S+)?, then )*%%agent --continue.*"), ""),
    (re.compile(r"(?: with|:) %%agent --continue"), ""),
    (re.compile(r"Answer it: %agent answer TEXT"), "Answer it where it runs"),
    (re.compile(r"%agent answer (\S+) (\S+) TEXT"), r"agentnb answer \1 TEXT --question \2"),
    (re.compile(r"%agent (recover|answer) "), r"agentnb \1 "),
    (re.compile(r"Give (?:it|them) again: -m VARIABLE, recover\(run, model=\.\.\.\)"), "Name another: -m MODEL"),
    (re.compile(r"recover\('([^']+)', answers=\{'([^']+)': \.\.\.\}\)"), r"agentnb answer \1 ANSWER --question \2"),
    (re.compile(r', approve="ask"'), ""),
    (re.compile(r"%%agent -m"), "-m"),
    (re.compile(r"or run the workflow with model="), "or give -m MODEL"),
    (re.compile(r"Define (it|them), then pass \1: recover\(run, gates=\[([^\]]*)\]\)"), _gates),
    (re.compile(r"Define (it|them), then name \1: -t ([^,]*), recover\(run, tools=\[[^\]]*\]\)"), _tools),
    (re.compile(r"Give it as a tool: -t (\w+), tools=\[\w+\]"), r"Give it: --tools MODULE:\1"),
    (re.compile(r"Declare it \(agents:\), or give it in Python: agents=\{.*?\)\}"), "Declare it under agents:"),
    (re.compile(r"Give the workflow its tools: -t NAME, tools=\[f\]"), "Give it: --tools MODULE:NAME"),
)
"""Parts of hints, and what the command line says instead."""


_RESUMES = re.compile(r"%agent (?:recover|answer) \S+(?: \S+)*")


def in_a_shell(text: str) -> str:
    """Return the text with hints that can be followed in a shell."""
    for words, instead in _WORDS:
        text = words.sub(instead, text)
    return text


def of_run_in_a_shell(run: Run, text: str) -> str:
    """Return a hint about this run as `in_a_shell`, with the run's tools and gates in commands that resume it."""
    had = [("--tools", name) for name in names_of_tools(run)] + [("--gate", name) for name in names_of_gates(run)]
    again = "".join(f" {option} MODULE:{name}" for option, name in had)
    return in_a_shell(_RESUMES.sub(lambda match: match[0] + again, text))
