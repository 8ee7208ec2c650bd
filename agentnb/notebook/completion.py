"""Tab completion on lines with agentnb's magics: options, files, models, tools and commands."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import islice
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult
from IPython.core.interactiveshell import InteractiveShell

from agentnb.acp.known_agents import known_agents
from agentnb.context.history_settings import NAMED as HISTORIES
from agentnb.context.history_settings import History
from agentnb.core.run.approvals import MODES
from agentnb.display.texts.question_labels import TYPED_NO_ANSWER
from agentnb.guidance import BUILT_IN
from agentnb.models.registry import is_model
from agentnb.models.registry import names as model_names
from agentnb.notebook.choices import guidance_to_offer
from agentnb.notebook.commands import COMMANDS
from agentnb.notebook.commands.answer import MODEL_OPTIONS, answers_to_offer
from agentnb.notebook.commands.delete import OPTIONS as DELETE_OPTIONS
from agentnb.notebook.commands.history_command import KINDS
from agentnb.notebook.commands.key_command import OPTIONS, names_to_offer
from agentnb.notebook.commands.mcp import mcp_words
from agentnb.notebook.commands.recover import RECOVER_OPTIONS
from agentnb.notebook.commands.replay_magic import replay_words_after
from agentnb.notebook.commands.stop import ALL
from agentnb.notebook.commands.todos_command import CHANGES
from agentnb.notebook.commands.traces import words_after
from agentnb.notebook.commands.undo import undoable
from agentnb.notebook.lookup.dotted_names import dotted_names
from agentnb.notebook.lookup.server_names import server_words, tool_words
from agentnb.notebook.variable_names import gate_names, input_names, is_kind, names_of, output_names, run_names, tool_names
from agentnb.policies.policy_sets import NAMED as POLICIES
from agentnb.policies.run_limits import ON_LIMIT
from agentnb.rerun.run_values import NAMES
from agentnb.session.option_defaults import CHOICES, ON_STOP
from agentnb.session.session import Session
from agentnb.tools.builtin.builtin_names import WORDS
from agentnb.tools.mcp.mcp_server import PREFIX

SHORT = {"-m": "--model", "-g": "--guidance", "-p": "--policy", "-i": "--inputs"}
MAX_IDS = 20
"""Maximum interrupted runs offered, since finding them requires reading logs."""


@cache
def _options() -> dict[str, list[str]]:
    """Return the long options of each cell magic, by the magic's name (with percent signs)."""
    from agentnb.notebook.experiments.magic import ExperimentMagics
    from agentnb.notebook.magics import AgentMagics
    from agentnb.notebook.workflow_magic import WorkflowMagics

    cells: dict[str, Any] = {  # each has a parser from `magic_arguments`
        "%%agent": AgentMagics.agent_cell,
        "%%workflow": WorkflowMagics.workflow_cell,
        "%%plan": WorkflowMagics.plan_cell,
        "%%experiment": ExperimentMagics.experiment_cell,
    }
    options = {
        magic: [option for action in cell.parser._actions for option in action.option_strings] for magic, cell in cells.items()
    }
    return {magic: sorted(option for option in names if option.startswith("--")) for magic, names in options.items()}


def complete(context: CompletionContext, shell: InteractiveShell, session: Session) -> SimpleMatcherResult:
    """Return the completions for a line with a magic."""
    options = _options()
    before = context.full_text.split("\n")[context.cursor_line][: context.cursor_position]
    words = before.split(" ")
    fragment = words[-1]
    if len(words) > 1 and words[0] in options and context.cursor_line == 0:
        candidates = _cell_words(words[1:-1], options[words[0]], session, shell.user_ns, fragment)
    elif len(words) > 1 and words[0] == "%agent":
        candidates = _line_words(words[1:-1], session, shell.user_ns, fragment)
    elif len(words) > 1 and words[0] == "%traces":
        candidates = words_after(words[1:-1], fragment)
    elif len(words) > 1 and words[0] == "%replay":
        candidates = replay_words_after(words[1:-1], fragment, session, shell.user_ns)
    else:
        return {"completions": [], "suppress": False}
    completions = [SimpleCompletion(word, type="option") for word in candidates if word.startswith(fragment)]
    return {"completions": completions, "matched_fragment": fragment, "suppress": bool(completions)}


def _cell_words(before: list[str], options: list[str], session: Session, variables: dict[str, Any], fragment: str) -> list[str]:
    option = next((word for word in reversed(before) if word.startswith("-")), "")
    if option in ("-t", "--tools"):
        return [name for name in _tools(session, variables, fragment) if name not in before] + options
    if option == "--gate" and before[-1] == option:
        return gate_names(variables)
    values: dict[str, Callable[[], list[str]]] = {
        "--acp": lambda: [*known_agents()],
        "--model": lambda: model_names() + names_of(variables, is_model),
        "--guidance": lambda: guidance_to_offer(session, variables),
        "--policy": lambda: list(POLICIES),
        "--context": lambda: [context.name for context in session.contexts.known],
        "--history": lambda: [*HISTORIES, *names_of(variables, is_kind(History))],
        "--output": lambda: output_names(variables),
        "--inputs": lambda: input_names(variables),
        "--expect": lambda: [f'"{name}' for name in NAMES],
        "--on-limit": lambda: list(ON_LIMIT),
        "--on-stop": lambda: list(ON_STOP),
        "--approve": lambda: list(MODES),
        "--continue": lambda: run_names(variables) + options,
    }
    long = SHORT.get(option, option)
    return values[long]() if long in values and before[-1] == option else options


def _tools(session: Session, variables: dict[str, Any], fragment: str) -> list[str]:
    """Return the names of tools; after a dot, those of the functions in the object or module before it."""
    if fragment.startswith(PREFIX):
        return [*server_words(session), *tool_words(session)]
    return dotted_names(fragment, variables) if "." in fragment else [*tool_names(variables), *WORDS, *server_words(session)]


def _line_words(before: list[str], session: Session, variables: dict[str, Any], fragment: str) -> list[str]:
    if not before:
        return list(COMMANDS)
    after: dict[str, Callable[[], list[str]]] = {
        "tools": lambda: _tools(session, variables, fragment),
        "guidance": lambda: [*BUILT_IN, *session.sets],
        "contexts": lambda: [context.name for context in session.contexts.known],
        "acp": lambda: ["add"],
        "todos": lambda: ["add", *CHANGES],
        "key": lambda: [*OPTIONS] if len(before) > 1 else names_to_offer(),
        "history": lambda: list(KINDS),
        "answer": lambda: (
            model_names() + names_of(variables, is_model)
            if before[-1] in MODEL_OPTIONS
            else [*TYPED_NO_ANSWER, *answers_to_offer(session), *islice(session.suspended_ids(), MAX_IDS)]
        ),
        "stop": lambda: [
            ALL,
            *(live.run_id for live in session.running()[::-1]),
            *(control.id for control in session.experiments()[::-1]),
        ],
        "delete": lambda: [*DELETE_OPTIONS, *session.store.ids()[::-1]],
        "load": lambda: session.store.ids()[::-1],
        "undo": lambda: undoable(session),
        "mcp": lambda: mcp_words(before[1:], session),
        "recover": lambda: _recover_words(before[1:], session, variables, fragment),
        "defaults": lambda: _defaults(session),
    }
    return after[before[0]]() if before[0] in after else []


def _recover_words(before: list[str], session: Session, variables: dict[str, Any], fragment: str) -> list[str]:
    candidates = _cell_words(before, RECOVER_OPTIONS, session, variables, fragment)
    return candidates if before else [*islice(session.interrupted_ids(), MAX_IDS), *candidates]


def _defaults(session: Session) -> list[str]:
    """Return each key, and all values of keys that have only a few."""
    choices = CHOICES | {"policy": tuple(POLICIES), "guidance": (*BUILT_IN, *session.sets)}
    return [f"{key}={value}" for key in session.defaults for value in ("", *choices.get(key, ()))]
