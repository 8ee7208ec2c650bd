"""The commands of ``%agent``: one function each, collected in a dict."""

from __future__ import annotations

from collections.abc import Callable
from inspect import getdoc
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from agentnb import settings
from agentnb.acp.external_agent import is_external
from agentnb.acp.installed import acp_command
from agentnb.advice import NameOne, Plain
from agentnb.core.questions import ASK_PERSON
from agentnb.core.redaction import redact
from agentnb.detect.run import Run
from agentnb.display.texts.labels import pluralize
from agentnb.errors import SettingsError, suggest_similar
from agentnb.experiments.running.control import Control
from agentnb.notebook.commands.answer import answer_command, approve_command
from agentnb.notebook.commands.contexts_command import context_lines, context_text
from agentnb.notebook.commands.delete import delete_command
from agentnb.notebook.commands.guidance_command import find_guidance, set_lines, set_text
from agentnb.notebook.commands.history_command import history_command
from agentnb.notebook.commands.key_command import key_lines, key_verdict
from agentnb.notebook.commands.mcp import mcp_command
from agentnb.notebook.commands.models_command import model_lines, provider_models
from agentnb.notebook.commands.permissions_command import permissions_command
from agentnb.notebook.commands.recover import recover_run
from agentnb.notebook.commands.status import default_lines, status_lines
from agentnb.notebook.commands.stop import find_live, stop_command
from agentnb.notebook.commands.todos_command import change_todos, todo_text
from agentnb.notebook.commands.undo import undo_command
from agentnb.notebook.dry import tool_text
from agentnb.notebook.lookup.server_names import server_words, shown_later, specs_of
from agentnb.notebook.magic_errors import split_words
from agentnb.notebook.variable_names import find_model, find_tools, tool_names, words_of
from agentnb.session.option_defaults import MODELS
from agentnb.session.session import Session
from agentnb.tools.builtin.builtin_names import GROUPS
from agentnb.tools.builtin.group import BuiltinTool
from agentnb.tools.function import FunctionTool
from agentnb.tools.toolbox import Toolbox


def command(session: Session, shell: InteractiveShell, line: str) -> Any:
    """Run the command on the line. Raises `SettingsError`, listing the most similar commands, if it is unknown."""
    name, _, arguments = line.strip().partition(" ")
    if name in ("", "help"):
        print("\n".join(f"%agent {word:<9} {(do.__doc__ or '').splitlines()[0]}" for word, do in COMMANDS.items()))
        return None
    if name not in COMMANDS:
        shown = "like this" if settings.looks_like_a_key(name) else f"%agent {name}"
        raise SettingsError(
            f"There is no command {shown}",
            (
                *(suggest_similar(name, COMMANDS) or (NameOne(known=(*COMMANDS,)),)),
                Plain("Write a task in a cell that begins with %%agent"),
            ),
        )
    if arguments.strip() == "--help":
        print(f"%agent {name} {getdoc(COMMANDS[name])}")
        return None
    if name not in VERBATIM:
        arguments = shell.var_expand(arguments)
    return COMMANDS[name](session, shell, arguments.strip())


def status(session: Session, shell: InteractiveShell, rest: str) -> None:
    """Show experiments and what is running, or how the last run ended"""
    print("\n".join(status_lines(session)))


def pause(session: Session, shell: InteractiveShell, rest: str) -> None:
    """[ID]: pause the newest run or experiment, or the given one, before its next round or run"""
    live = find_live(session, rest)
    live.pause()
    if isinstance(live, Control):
        running = live.progress.running
        first = f": {pluralize(running, 'run')} {'finishes' if running == 1 else 'finish'} first" if running else ""
        print(f"Experiment {live.id} is pausing{first}. %agent resume continues it")
        return
    unit = "round" if live.run.kind == "agent" else "step"
    print(f"Run {live.run_id} will pause before its next {unit}. %agent resume continues it")


def resume(session: Session, shell: InteractiveShell, rest: str) -> None:
    """[ID]: continue a paused run or experiment"""
    live = find_live(session, rest)
    live.resume()
    print(f"Experiment {live.id} continues" if isinstance(live, Control) else f"Run {live.run_id} continues")


def say(session: Session, shell: InteractiveShell, rest: str) -> None:
    """[--now] TEXT: send the running agent a message for its next round; --now interrupts an external agent to deliver it"""
    live = session.current()
    if not rest:
        raise SettingsError("The message is empty", "Write: %agent say TEXT")
    if live.run.kind != "agent":
        raise SettingsError(
            f"Run {live.run_id} is a {live.run.kind} and does not accept messages",
            "To change it: %agent stop",
        )
    first, _, after = rest.partition(" ")
    is_now = first == "--now"
    text = after.lstrip() if is_now else rest
    if not text:
        raise SettingsError("The message is empty", "Write: %agent say --now TEXT")
    live.say(text, now=is_now)
    print(f"Run {live.run_id} will read it {'as its next prompt' if is_external(live.run) else 'in its next round'}")


def todos(session: Session, shell: InteractiveShell, rest: str) -> None:
    """[add TITLE | start, done, open, remove ID | block ID WHY | move ID [before ID]]: the todo list of the newest run"""
    board = session.board()
    if rest:
        change_todos(board, rest)
    print(todo_text(board))


def permissions(session: Session, shell: InteractiveShell, rest: str) -> None:
    """[allow RULE | withdraw NUMBER_OR_RULE]: list what is always allowed, allow RULE in this session, or withdraw one

    A rule is the name of a tool, or a pattern of its calls, such as bash(git status *). Only an answer to a question
    saves a rule: %agent answer always in project: RULE.
    """
    print(permissions_command(session, rest, shell.user_ns))


def guidance(session: Session, shell: InteractiveShell, rest: str) -> None:
    """[NAME [PART]]: list the guidance sets; with a name, show that set or one part of it"""
    name, _, part = rest.partition(" ")
    print(set_text(find_guidance(name, session, shell.user_ns), part) if rest else "\n".join(set_lines(session)))


def contexts(session: Session, shell: InteractiveShell, rest: str) -> None:
    """[NAME]: list the contexts of conversations; with a name, show the cell that writes it"""
    print(context_text(session.contexts.find(rest)) if rest else "\n".join(context_lines(session)))


def acp(session: Session, shell: InteractiveShell, rest: str) -> None:
    """[add NAME COMMAND]: list the external agents that a cell can run, or add one"""
    print(acp_command(rest))


def models(session: Session, shell: InteractiveShell, rest: str) -> None:
    """[PROVIDER]: list the kinds of models and the keys; with a provider, the models it lists"""
    print("\n".join(provider_models(rest) if rest else model_lines()))


def tools(session: Session, shell: InteractiveShell, rest: str) -> None:
    """[NAME ...]: list the available tools; with names of functions or built-in tools, show them as the model sees them"""
    if not rest:
        names = tool_names(shell.user_ns)
        print("\n".join(names) if names else "There are no functions in this notebook yet. Define one, then: %%agent -t NAME")
        print(f"Built in: {', '.join((*GROUPS, ASK_PERSON))}. To see them: %agent tools files")
        if servers := server_words(session):
            print(f"MCP servers: {', '.join(servers)}. To see the tools of one: %agent tools {servers[0]}")
        return
    toolbox = Toolbox(find_tools(words_of([split_words(rest)]), shell.user_ns, session.tool_groups()))
    for item in toolbox.servers:
        print("\n".join([tool_text(redact(spec)) for spec in specs_of(session, item)] or shown_later([item])))
    for tool in toolbox:
        print(tool_text(redact(tool.spec)))
        if isinstance(tool, FunctionTool) and not isinstance(tool, BuiltinTool):
            gaps = tool.signature.gaps
            print("\n".join(f"Missing: {gap}" for gap in gaps) if gaps else "The docstring is complete.")


def key(session: Session, shell: InteractiveShell, rest: str) -> None:
    """[NAME [--keyring | --forget]]: list the keys; with a name, ask for that key without showing it"""
    print(key_verdict(rest.split()) if rest else "\n".join(key_lines()))


def defaults(session: Session, shell: InteractiveShell, rest: str) -> None:
    """[KEY=VALUE ...]: the options that cells omit; without KEY=VALUE, show them all"""
    changed = []
    for word in split_words(rest):
        key, equals, value = word.partition("=")
        if not equals:
            raise SettingsError(f"{word!r} is not a setting", "Write KEY=VALUE, such as model=simulated:disciplined")
        is_variable = key in MODELS and value.isidentifier() and bool(find_model(value, shell.user_ns))
        session.set_default(key, value, is_variable=is_variable)
        changed.append(key.replace("_", "-"))
    print("\n".join(default_lines(session, changed or session.defaults)))


def delete(session: Session, shell: InteractiveShell, rest: str) -> None:
    """ID ... | --older-than 30d | --failed [--yes]: delete runs after confirmation; live runs stay, waiting ones go only by ID

    --yes: do not ask, for frontends without input such as nbconvert.
    """
    print(delete_command(session, shell, split_words(rest)))


def load(session: Session, shell: InteractiveShell, rest: str) -> Run:
    """ID: load a stored run into `run`, for --continue"""
    if not rest:
        raise SettingsError("Which run?", "Name one: %agent load ID; %agent history lists them")
    run = session.load(rest)
    shell.user_ns["run"] = run
    return run


COMMANDS: dict[str, Callable[[Session, InteractiveShell, str], Any]] = {
    "status": status,
    "stop": stop_command,
    "pause": pause,
    "resume": resume,
    "say": say,
    "answer": answer_command,
    "approve": approve_command,
    "todos": todos,
    "permissions": permissions,
    "guidance": guidance,
    "contexts": contexts,
    "acp": acp,
    "models": models,
    "tools": tools,
    "key": key,
    "defaults": defaults,
    "history": history_command,
    "load": load,
    "delete": delete,
    "undo": undo_command,
    "mcp": mcp_command,
    "recover": recover_run,
}
VERBATIM = frozenset({"say", "answer", "todos", "key", "permissions", "mcp"})
"""Commands that take free text, where ``{x}`` and ``$x`` are not replaced by variables."""
