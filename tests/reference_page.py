"""Writes docs/reference.md from options, commands, settings, presets and names: ``python tests/reference_page.py``."""

from __future__ import annotations

import ast
import inspect
import re
from argparse import SUPPRESS, Action, ArgumentParser
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, Field, fields
from importlib import import_module
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

from agentnb import Agent, RunOptions, errors, plots, settings
from agentnb.chat.context_spec import PROFILES
from agentnb.cli.command_table import COMMANDS as SHELL_COMMANDS
from agentnb.context.history_settings import NAMED as HISTORIES
from agentnb.context.history_settings import History, find_history
from agentnb.detect import presets
from agentnb.models.options import Options
from agentnb.models.registry import REMOTE
from agentnb.notebook.commands import COMMANDS
from agentnb.notebook.experiments.magic import ExperimentMagics
from agentnb.notebook.magics import AgentMagics
from agentnb.notebook.workflow_magic import WorkflowMagics
from agentnb.policies.run_limits import SESSION_BUDGET
from agentnb.rerun.replay_result import Replay
from agentnb.rerun.run_values import NAMES
from agentnb.session.option_defaults import CHOICES, LIMIT_KEYS, at_first

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference.md"
PACKAGE = PAGE.parents[1] / "agentnb"
HEAD = """# Reference

Made by `python tests/reference_page.py` from the code; a test fails when it is out of date. The same texts are in `%%agent?`,
`%agent`, `agentnb COMMAND --help` and `help(Agent)`. Columns of tables: [tables.md](tables.md); formats of traces:
[traces.md](traces.md#formats).
"""
MAGICS = {
    "%%agent": AgentMagics.agent_cell,
    "%%workflow": WorkflowMagics.workflow_cell,
    "%%plan": WorkflowMagics.plan_cell,
    "%%experiment": ExperimentMagics.experiment_cell,
    "%%guidance": AgentMagics.guidance_cell,
    "%%context": AgentMagics.context_cell,
    "%replay": AgentMagics.replay_line,
    "%traces": AgentMagics.traces_line,
}

MANY_WORDS = 10
"""A cell of the page with so many words is there once."""
FROM_OTHERS = {"model": "chosen by the keys that there are", **dict.fromkeys(PROFILES, "that of model")}
"""Sources of defaults without a value."""


def text() -> str:
    """Return the whole page, with each long cell once."""
    return "\n".join(_without_repeats("\n".join([HEAD, *_sections()]).split("\n")))


def _without_repeats(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines; a long last cell that another section has, too, becomes a link to that section."""
    first, heading = dict[str, str](), ""
    for line in lines:
        heading = line.strip("# ") if line.startswith("#") else heading
        row, _, cell = line.removesuffix(" |").rpartition(" | ")
        if line.startswith("| ") and len(cell.split()) >= MANY_WORDS and (place := first.setdefault(cell, heading)) != heading:
            anchor = re.sub(r"[^a-z0-9 -]", "", place.lower()).replace(" ", "-")
            line = f"{row} | as in [{place}](#{anchor}) |"
        yield line


def _sections() -> Iterator[str]:
    for name, magic in MAGICS.items():
        yield _section(f"Options of {name}", _about(magic), _table(["option", "meaning"], _options(magic.parser)))
    yield _section("Commands of %agent", "", _table(["command", "meaning"], _commands()))
    told = "`%agent defaults KEY=VALUE` sets what cells omit; an empty value, or `none`, removes a limit."
    yield _section("Keys of %agent defaults", told, _table(["key", "at first", "meaning"], _defaults()))
    yield _section("Commands of agentnb", "In a shell; `python -m agentnb` is the same.", "\n".join(_shell_commands()))
    yield _section("Settings of Agent", "", _table(["setting", "default", "meaning"], _settings()))
    told = "Keywords of `agent.run`, `start`, `run_sync` and `stream`, or fields of `RunOptions`."
    rows = [(f"`{field.name}`", _default(field), _attributes(RunOptions)[field.name]) for field in fields(RunOptions)]
    yield _section("Options of a run", told, _table(["option", "default", "meaning"], rows))
    told = "What `History(...)` does not name is as in `auto`, except `share`, which is off. Empty means off."
    head = ["setting", *(f"`{name}`" for name in HISTORIES), "meaning"]
    yield _section("Settings of a history", told, _table(head, _histories()))
    told = "After `?` in the name of a model, with `&` between them. An option that its provider does not have is refused."
    yield _section("Options of models", told, _table(["option", "default", "for", "meaning"], _model_options()))
    yield _section("Environment variables", "", _table(["variable", "default", "meaning"], _variables()))
    rows = [(f"`{name}`", one.meaning) for name, one in NAMES.items()]
    yield _section("Names in expectations", "", _table(["name", "meaning"], rows))
    yield _section("Presets of detectors", "", _table(["preset", "rules of", "what it finds", "left out"], _presets()))
    yield _section("Attributes of a replay", "", _table(["attribute", "meaning"], _attributes_of_a_replay()))
    rows = [(f"`{name}`", (inspect.getdoc(getattr(plots, name)) or "").partition("\n\n")[0]) for name in plots.__all__]
    yield _section("Plots", "", _table(["plot", "meaning"], rows))
    told = (
        "The code holds them in the module named, with unit and reason; those without a setting of their own are changed there."
    )
    yield _section("Numbers", told, _table(["number", "default", "module", "meaning"], _numbers()))
    tree = next(part for part in (errors.__doc__ or "").split("\n\n") if "├" in part)
    yield _section("Errors", "", f"```text\n{inspect.cleandoc(tree)}\n```")


def _section(title: str, told: str, body: str) -> str:
    return "\n\n".join(part for part in (f"## {title}", _paragraphs(told), body) if part) + "\n"


def _about(magic: Any) -> str:
    """Return the docstring of a magic without its usage and options, which IPython adds."""
    paragraphs = (inspect.getdoc(magic) or "").split("\n\n")
    return "\n\n".join(takewhile(lambda part: not part.endswith(":") and ":\n" not in part, paragraphs[2:]))


def _table(head: list[str], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ["---"] * len(head), *([_cell(cell) for cell in row] for row in rows)]
    return "\n".join(f"|{'|'.join(cells)}|" if set(cells) == {"---"} else f"| {' | '.join(cells)} |" for cells in lines)


def _cell(cell: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", _words(cell))


def _paragraphs(told: str) -> str:
    return "\n\n".join(_words(part) for part in told.split("\n\n"))


def _words(told: str) -> str:
    return " ".join(told.replace("``", "`").split())


def _options(parser: ArgumentParser) -> list[tuple[str, str]]:
    return [(_usage(action), (action.help or "").replace("%%", "%")) for action in parser._actions if action.help != SUPPRESS]


def _usage(action: Action) -> str:
    names = action.option_strings or [str(action.metavar or action.dest)]
    value = f" {action.metavar}" if action.option_strings and action.metavar else ""
    several = " ..." if action.nargs == "+" else ""
    return ", ".join(f"`{name}`" for name in names[:-1]) + (", " if names[:-1] else "") + f"`{names[-1]}{value}{several}`"


def _commands() -> list[tuple[str, str]]:
    rows = []
    for name, do in COMMANDS.items():
        arguments, meaning = re.fullmatch(r"(?:((?:\[|[A-Z]{2}).*?): )?(.*)", (do.__doc__ or "").splitlines()[0]).groups("")  # type: ignore[union-attr]
        rows.append((f"`%agent {name} {arguments}".rstrip() + "`", meaning))
    return rows


def _defaults() -> list[tuple[str, str, str]]:
    helps = {action.option_strings[-1][2:]: action.help for action in AgentMagics.agent_cell.parser._actions}
    helps |= {
        SESSION_BUDGET.name.replace("_", "-"): SESSION_BUDGET.help,
        "instructions": helps["no-instructions"],
        "sandbox": "the sandbox for bash commands, as Shell(sandbox=); none by default",
        "repo": "the repository of the GitHub tools, owner/name, as GitHub(repo=); the remote origin by default",
        **{profile: f"the model of contexts with the profile {profile}" for profile in PROFILES},
    }
    rows = []
    for key, value in at_first().items():
        choices = "" if key not in CHOICES or "(default" in str(helps[key]) else f": {', '.join(CHOICES[key])}"
        told = "whether the repository's CLAUDE.md, AGENT.md or AGENTS.md is read" if key == "instructions" else str(helps[key])
        none = "none" if key in LIMIT_KEYS else FROM_OTHERS.get(key, "")
        rows.append((f"`{key}`", value or none, told.replace("%%", "%") + choices))
    return rows


def _shell_commands() -> Iterator[str]:
    for name, command in SHELL_COMMANDS.items():
        parser = ArgumentParser(add_help=False)
        for argument in command.arguments:
            parser.add_argument(*argument.names, **argument.how)
        told = _words(command.do.__doc__ or "")
        yield f"### agentnb {name}\n\n{told}\n\n" + _table(["argument", "meaning"], _options(parser)) + "\n"
        if command.examples:
            yield f"```text\n{command.examples.strip()}\n```\n"


def _settings() -> list[tuple[str, str, str]]:
    found = _items(Agent)
    return [(f"`{field.name}`", _default(field), found[field.name]) for field in fields(Agent) if field.name in found]


def _histories() -> list[tuple[str, ...]]:
    values = [find_history(name) for name in HISTORIES]
    return [
        (f"`{name}`", *(f"{value:,}" if (value := getattr(one, name)) is not None else "" for one in values), told)
        for name, told in _items(History).items()
    ]


def _items(of: type) -> dict[str, str]:
    """Return field meanings from the docstring of a data class, whose lines begin with a field name and a colon."""
    paragraphs = re.sub(r"Limits of a run, [^:]*: ", "", inspect.getdoc(of) or "").split("\n\n")
    names = "|".join(field.name for field in fields(of) if field.init)
    told = _words(" ".join(part for part in paragraphs if part.startswith("``")))
    return dict(re.findall(rf"`({names})`: (.*?)(?=\.? `(?:{names})`: |\.?$)", told))


def _numbers() -> Iterator[tuple[str, ...]]:
    """Yield the constants of the modules of defaults; those of the store are in its bounds module."""
    for file in [*sorted(PACKAGE.glob("*/defaults.py")), PACKAGE / "store" / "bounds.py"]:
        module = ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)
        for assigned, told in pairwise(ast.parse(file.read_text(encoding="utf-8")).body):
            value = getattr(import_module(module), name, None) if (name := _constant(assigned)) else None
            if isinstance(value, int | float) and isinstance(told, ast.Expr):
                yield (
                    f"`{name}`",
                    f"{int(value) if value == int(value) else value:,}",
                    f"`{module}`",
                    ast.literal_eval(told.value),
                )


def _constant(assigned: ast.stmt) -> str:
    target = assigned.targets[0] if isinstance(assigned, ast.Assign) else None
    return target.id if isinstance(target, ast.Name) and target.id.isupper() else ""


def _attributes_of_a_replay() -> list[tuple[str, str]]:
    below = _attributes(Replay)
    found = {
        name: below.get(name) or inspect.getdoc(inspect.getattr_static(Replay, name, None)) for name in [*below, *vars(Replay)]
    }
    return [(f"`{name}`", told) for name, told in found.items() if told and not name.startswith("_")]


def _default(one: Field[Any]) -> str:
    if one.default_factory is not MISSING:
        return f"`{one.default_factory()!r}`"
    return "" if one.default is MISSING or one.default is None else f"`{one.default!r}`"


def _attributes(of: type) -> dict[str, str]:
    """Return the docstrings below the fields of a class."""
    body = ast.parse(inspect.getsource(of)).body[0].body  # type: ignore[attr-defined]  # a class
    return {
        field.target.id: inspect.cleandoc(below.value.value)
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr)
    }


OWN_COLUMNS = ("anthropic", "openai", "openai-responses", "ollama", "compatible")
"""Kinds of models, without the servers that docs/models.md lists by name."""


def _model_options() -> list[tuple[str, ...]]:
    usual, told = Options(), _attributes(Options)
    rows = []
    for field in fields(Options):
        users = [name for name, provider in REMOTE.items() if field.name in provider.options]
        rest = [name for name in REMOTE if name not in OWN_COLUMNS]
        lack = [name for name in rest if name not in users]
        if len(lack) < len(rest) // 2 and len(users) < len(REMOTE):
            but = f" but {', '.join(lack)}" if lack else ""
            users = [*(name for name in users if name in OWN_COLUMNS), f"the other servers{but}"]
        value = getattr(usual, field.name)
        default = {True: "yes", False: "no", None: "", (): "", 300.0: "300"}.get(value, str(value))
        if users:
            rows.append(
                (f"`{field.name}`", default, "all" if len(users) == len(REMOTE) else ", ".join(users), told[field.name])
            )
    return rows


def _variables() -> list[tuple[str, str, str]]:
    rows = re.findall(r"^``(\w+)`` +(.*)$", (settings.__doc__ or "").split("=\n")[1], re.MULTILINE)
    return [(f"`{name}`", default, meaning) for name, (meaning, _, default) in ((n, told.partition("; ")) for n, told in rows)]


def _presets() -> list[tuple[str, ...]]:
    found = map(presets.describe, presets.names())
    return [(f"`{one.name}`", f"{one.source.project} {one.source.version}", one.about, one.omits) for one in found]


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
    print(f"docs/{PAGE.name}: {len(text().splitlines())} lines")
