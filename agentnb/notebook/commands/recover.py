"""``%agent recover``: resumes a run whose process died, and shows it as a cell does."""

from __future__ import annotations

from argparse import BooleanOptionalAction, Namespace
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic_arguments import argument, magic_arguments

from agentnb.agent.agent import Agent
from agentnb.agent.from_log import agent_of, has_guidance_texts
from agentnb.detect.run import Run
from agentnb.display.texts.foreign_log import ANSWER_UNUSED, decide_trust
from agentnb.display.texts.labels import clean
from agentnb.errors import SettingsError, UnknownTool
from agentnb.guidance import GuidanceSet
from agentnb.models.destinations.allowed_urls import with_consent
from agentnb.notebook.cells.extension_options import extensions_again
from agentnb.notebook.cells.limit_options import allow_url_option, tools_option
from agentnb.notebook.cells.notebook_runs import Answer, cell_runs
from agentnb.notebook.commands.guidance_command import find_guidance
from agentnb.notebook.frontend import asker, is_attended
from agentnb.notebook.lookup.dotted_names import proposed_names, typed_names
from agentnb.notebook.magic_errors import parse_options
from agentnb.notebook.variable_names import (
    check_variable,
    find_agents,
    find_gates,
    find_model,
    find_tools,
    gates_again,
    servers_again,
    tools_again,
    unquote,
    words_of,
)
from agentnb.notebook.widget_tools import has_kernel
from agentnb.runtime.host.run_options import RunOptions
from agentnb.runtime.runs.gate_names import missing_gates, missing_subject, name_of_gate
from agentnb.runtime.runs.orchestration import Orchestration
from agentnb.runtime.workers.foreground import Foreground
from agentnb.session.recovery import is_workflow, workflow_again
from agentnb.session.session import Session
from agentnb.tools.builtin.builtin_names import LOGGED, WORDS
from agentnb.tools.mcp.logged import without_tools_of_servers
from agentnb.tools.mcp.mcp_server import is_word, servers_among
from agentnb.workflow.files.declared_files import tool_names_of_files
from agentnb.workflow.files.logged_workflow import logged_workflow
from agentnb.workflow.form.workflow_spec import WorkflowSpec
from agentnb.workflow.plans.planner import ACTION_NAMES
from agentnb.workflow.tasks.task_orchestration import PLAN_TOOLS

HERE_OPTION = "--here"
"""Recovers another notebook's run without asking."""
TRUST_LOG, NO_TRUST_LOG = "--trust-log", "--no-trust-log"
"""Options that decide, without a question, whether to trust a foreign log."""
RECOVER_OPTIONS = ["--model", "--tools", "--gate", "--guidance", "--out", "--allow-url", HERE_OPTION, TRUST_LOG, NO_TRUST_LOG]
USAGE = (
    "Write %agent recover [ID] [-m MODEL] [-t TOOL ...] [--gate NAME] [-g GUIDANCE] [-o NAME] [--allow-url URL] "
    f"[{HERE_OPTION}] [{TRUST_LOG}]"
)


@magic_arguments("agent recover")
@argument("run_id", metavar="ID", nargs="?", default="")
@argument("-m", "--model", metavar="MODEL", default="")
@tools_option()
@argument("--gate", metavar="NAME", action="append", default=[])
@argument("-g", "--guidance", metavar="NAME", default="")
@argument("-o", "--out", metavar="NAME", default="")
@argument(HERE_OPTION, action="store_true")
@argument(TRUST_LOG, action=BooleanOptionalAction, default=None)
@allow_url_option
def _options(line: str) -> None:
    """The options of %agent recover."""


def recover_run(session: Session, shell: InteractiveShell, rest: str) -> Answer | None:
    """[ID] [-m MODEL] [-t TOOL ...] [--gate NAME] [-g GUIDANCE] [-o NAME] [--allow-url URL] [--here]: resume a run that died

    Resume the run that the line names, or the newest interrupted run, and wait for its end.
    """
    return _resume(session, shell, parse_options(_options, rest, see=USAGE))


def resume_with(
    session: Session,
    shell: InteractiveShell,
    run_id: str,
    answers: Mapping[str, Any],
    model: str = "",
    trust_log: bool | None = None,
    allow_urls: Sequence[str] = (),
) -> Answer | None:
    """Resume the suspended run with answers to its questions, by id; store it in its cell's variable and wait for its end.

    ``model``: replaces the run's own model, which may have been a Python object; ``trust_log``, ``allow_urls``: as in
    `RunOptions`.
    """
    options = parse_options(_options, run_id, see=USAGE)
    options.model, options.trust_log, options.allow_urls = model, trust_log, allow_urls
    return _resume(session, shell, options, answers)


def _resume(
    session: Session, shell: InteractiveShell, options: Namespace, answers: Mapping[str, Any] | None = None
) -> Answer | None:
    out = check_variable(options.out) if options.out else ""
    run_id = options.run_id or session.newest_interrupted()
    if answers is None and not options.here and not _is_wanted_here(session, shell, run_id):
        print("Nothing was recovered")
        return None
    stored = session.store.load(run_id)
    out = out or cell_runs(shell, session).variable_of(stored)
    trust = trust_of(stored, options.trust_log, shell)
    if trust is False and answers:
        print(ANSWER_UNUSED)
        answers = None

    def make(run: Run) -> Agent | Orchestration:
        make_again = _workflow if is_workflow(run) else _agent
        runnable = make_again(session, shell.user_ns, options, run)
        if not options.run_id:
            print(f"Resuming run {run.id}")
        return runnable

    def resume() -> Answer | None:
        foreground = Foreground()
        with foreground.own_interrupts():
            run_options = RunOptions(foreground=foreground, answers=answers, trust_log=trust, allow_urls=options.allow_urls)
            return cell_runs(shell, session).run(partial(session.recover, run_id, make), out, run_options)

    return with_consent(resume, asker(shell))


def trust_of(run: Run, trust_log: bool | None, shell: Any) -> bool | None:
    """Return ``trust_log``; if it is None and the log is foreign, ask the person, if present, and return the decision."""
    return decide_trust(run, trust_log, asker(shell), show=f"%agent load {run.id}")


def _is_wanted_here(session: Session, shell: Any, run_id: str) -> bool:
    """True if the run is to be resumed with this notebook's functions. For another notebook's run, the person is asked.

    Raises `SettingsError`, with the command that resumes it, if nobody can be asked.
    """
    run = session.store.summary(run_id)
    if not run.notebook or run.notebook == session.notebook:
        return True
    whose = clean(f"Run {run.id} was started in {run.notebook}")
    if not session.notebook:  # a terminal, or a kernel that does not know its notebook
        print(whose)
        return True
    if has_kernel(shell) and not is_attended(shell):
        raise SettingsError(f"{whose}, not in {session.notebook}", f"To recover it here: %agent recover {run.id} {HERE_OPTION}")
    reply = input(f"{whose}. Recover it in {session.notebook}, with the functions defined here? [y/N] ")
    return reply.strip().lower() in ("y", "yes")


def _agent(session: Session, variables: Mapping[str, Any], options: Namespace, run: Run) -> Agent:
    """Return the agent that resumes the run, with its logged settings, and tools, gates and guidance from the notebook."""
    tools = _tools(options, variables, run, run.own_tools)
    gates = _gates(options, variables, run)
    model = unquote(options.model)
    guidance = _guidance(session, variables, options.guidance, run)
    return agent_of(
        run,
        tools=tools.values(),
        gates=gates,
        model=find_model(model, variables) if model else None,
        extensions=extensions_again(run),
        **({} if guidance is None else {"guidance": guidance}),
    )


def _workflow(session: Session, variables: Mapping[str, Any], options: Namespace, run: Run) -> Orchestration:
    """Return the workflow that resumes the run, read from its log, with tools, gates and agents from the notebook."""
    if options.guidance:
        raise SettingsError(f"Run {run.id} is a workflow; its agents have their own guidance", "Leave out -g")
    declared = logged_workflow(run.settings)
    needed = () if declared is None else tool_names_of_files(declared)
    names = [name for name in (*needed, *(run.settings.get(PLAN_TOOLS) or ())) if name not in ACTION_NAMES]
    own = declared.agents if isinstance(declared, WorkflowSpec) else {}
    defined_agents = find_agents(variables)
    model = unquote(options.model)
    guidance = (run.settings.get("agent_settings") or {}).get("guidance")
    return workflow_again(
        run,
        guidance=find_guidance(guidance, session, variables) if guidance else None,
        tools=_tools(options, variables, run, names).values(),
        gates=_gates(options, variables, run),
        model=find_model(model, variables) if model else None,
        agents={name: agent for name, agent in defined_agents.items() if name not in own},
    )


def _tools(options: Namespace, variables: Mapping[str, Any], run: Run, names: Sequence[str]) -> dict[str, Any]:
    """Return the tools with these names, and the typed ones. Raises `UnknownTool` if any are missing."""
    tools = tools_again(names, find_tools(words_of(options.tools), variables), variables)
    server_names = {item.name for item in servers_among(tools.values())}
    tools |= {server.name: server for server in servers_again(run, variables) if server.name not in server_names}
    names = [name for name in without_tools_of_servers(run.settings, names) if not is_word(name)]
    builtin = WORDS if is_workflow(run) else run.settings.get(LOGGED) or ()
    if missing := [name for name in names if name not in tools and name not in builtin]:
        subject, pronoun = missing_subject(run, "tool", missing)
        raise UnknownTool(f"{subject}, not defined in this notebook", _named_again(run, missing, pronoun, variables))
    return tools


def _named_again(run: Run, missing: Sequence[str], them: str, variables: Mapping[str, Any]) -> str:
    """Return the command that names the missing tools. Methods are named as originally typed, or as found in this notebook."""
    invocation = run.invocation if run.gives_consent else None
    names = {tool: names[0] for tool in missing if (names := proposed_names(tool, variables))}
    names |= typed_names(invocation.tools, missing) if invocation is not None and invocation.surface == "notebook" else {}
    variables_of_methods = dict.fromkeys(name.partition(".")[0] for name in names.values())
    undefined = [name for name in variables_of_methods if name not in variables]
    lead = f"Name {them}" if len(names) == len(missing) and not undefined else f"Define {', '.join(undefined) or them}, then"
    asks = " (it asks again)" if run.is_suspended else ""
    return f"{lead}: %agent recover {run.id}{' -t ' if names else ''}{' '.join(names.values())}{asks}"


def _gates(options: Namespace, variables: Mapping[str, Any], run: Run) -> list[Any]:
    """Return the run's gates, and the typed ones. Raises `SettingsError` if any are missing."""
    gates = gates_again(run, find_gates(words_of([options.gate]), variables), variables)
    missing = missing_gates(run, map(name_of_gate, gates))
    if missing:
        subject, pronoun = missing_subject(run, "gate", missing)
        raise SettingsError(
            f"{subject}, not defined in this notebook",
            f"Define {pronoun}, then: {'%agent answer' if run.is_suspended else '%agent recover'} {run.id}",
        )
    return gates


def _guidance(session: Session, variables: Mapping[str, Any], name: str, run: Run) -> GuidanceSet | None:
    """Return the named set, or None if the run's log contains its texts.

    Logs of older versions lack them; in that case, return the notebook's set of the same name, or None.
    """
    if name:
        return find_guidance(name, session, variables)
    if has_guidance_texts(run):
        return None
    set_name = str(run.settings.get("guidance", {}).get("set", ""))
    candidates = (value for value in list(variables.values()) if isinstance(value, GuidanceSet) and value.name == set_name)
    return session.sets.get(set_name) or next(candidates, None)
