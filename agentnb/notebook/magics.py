"""The magics: they parse their lines, call the session and show results, but make no decisions."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import cell_magic, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments

from agentnb.advice import USUAL_OUT, ListRuns
from agentnb.agent.agent import Agent
from agentnb.chat.context_type import ContextType
from agentnb.detect.run import Run
from agentnb.display.texts.labels import clean, first_line, short_id
from agentnb.errors import SettingsError, StoreError, suggest_similar
from agentnb.guidance import GuidanceSet
from agentnb.guidance.prompts import prompt as builtin_prompt
from agentnb.interchange.importing import CHOICES
from agentnb.models.destinations.allowed_urls import with_consent
from agentnb.models.registry import wire_form
from agentnb.notebook.agent_options import AgentOptions, make_agent
from agentnb.notebook.browser import Browser
from agentnb.notebook.cells.cell_invocation import invocation_of
from agentnb.notebook.cells.extension_options import chosen_extensions, extension_options
from agentnb.notebook.cells.interpolation import interpolate, near_misses
from agentnb.notebook.cells.limit_options import allow_url_option, approve_option, run_options, tools_option, typed_settings
from agentnb.notebook.cells.notebook_runs import Answer, cell_runs
from agentnb.notebook.commands import command
from agentnb.notebook.commands.contexts_command import context_message
from agentnb.notebook.commands.guidance_command import written_message
from agentnb.notebook.commands.replay_magic import replay_named
from agentnb.notebook.commands.traces import show_traces
from agentnb.notebook.dry import dry_text, limits_line
from agentnb.notebook.frontend import asker
from agentnb.notebook.magic_errors import SessionMagics, one_line_errors, parse_options
from agentnb.notebook.variable_names import check_variable, run_names, tools_before, unquote, words_of
from agentnb.rerun.replay_result import Replay
from agentnb.runtime.host.run_options import RunOptions
from agentnb.runtime.workers.foreground import Foreground
from agentnb.session.option_defaults import ON_STOP, typed_rules
from agentnb.session.session import Session
from agentnb.session.session_contexts import ContextChoice

MAX_PROMPT = 60
"""Maximum characters of the prompt in the note on a continued run."""


def continued_run(session: Session, variables: Mapping[str, Any], name: str, out: str) -> tuple[Run, str]:
    """Return the run to continue, and a note that identifies it (empty if the run was named).

    ``name``: a variable that holds a run, all or part of a run's id, or empty; ``out``: the variable of ``-o``, or empty.
    Raises `SettingsError` if the run is unknown, has no conversation or has not ended.
    """
    name = unquote(name)
    if name:
        return session.conversation(_find_run(session, variables, name)), ""
    value = variables.get(out)
    is_held = isinstance(value, Run) and value.started_at is not None
    run = session.conversation(value if is_held else None)
    location = f"in {out}" if is_held else "the last"
    prompt = first_line(run.prompt, MAX_PROMPT)
    return run, f"Continuing run {clean(short_id(run.id))} ({location}): {prompt}"


def _find_run(session: Session, variables: Mapping[str, Any], name: str) -> Run:
    """Return the run in a variable, or the run with an id."""
    value = variables.get(name)
    if isinstance(value, Run):
        return value
    hint = suggest_similar(name, run_names(variables)) or ListRuns(rest=" lists the runs")
    if name in variables:
        raise SettingsError(f"--continue {name}: the variable holds a {type(value).__name__}, not a run", hint)
    try:
        return session.stored(name)
    except StoreError as error:
        problem = f"--continue {name}: neither a variable that holds a run nor the name or id of one"
        raise SettingsError(problem, hint) from error


SEE_TRACES = "%traces? shows the options"


@magics_class
class AgentMagics(SessionMagics):
    """The magics ``%%agent``, ``%agent``, ``%replay``, ``%traces``, ``%%guidance`` and ``%%context``."""

    def __init__(self, shell: InteractiveShell, session: Session) -> None:
        super().__init__(shell, session)
        self._told: set[str] = set()

    @one_line_errors
    @magic_arguments("%agent")
    @argument(
        "-m",
        "--model",
        metavar="MODEL",
        help="provider:model, or a variable that holds a model; %%agent models lists the names",
    )
    @tools_option("functions in the notebook, lists of them, built-in tools such as files and shell, or mcp:NAME")
    @argument(
        "-g",
        "--guidance",
        metavar="NAME",
        help="the guidance set: %%agent guidance lists them, %%%%guidance NAME writes one (default: matrix)",
    )
    @argument(
        "-p", "--policy", metavar="NAME", help="which policy keeps the agent on task: matrix, minimal or chat (default: matrix)"
    )
    @argument(
        "--workflow-mode",
        action="store_true",
        help="a text-only reply does not end the run: the model says when it is complete (with the policy matrix)",
    )
    @argument(
        "--acp",
        metavar="NAME[:MODEL]",
        default="",
        help="an external agent in place of a model, such as opencode, over the Agent Client Protocol: %%agent acp lists them",
    )
    @argument(
        "--mode",
        metavar="MODE",
        default="",
        help="a mode of the external agent, by its own name (default: the mode that asks)",
    )
    @argument(
        "--output",
        metavar="NAME",
        help="the type of run.output, the structured answer: a variable with a dataclass, another type, or a JSON Schema; "
        "or int, float, str, bool, list, dict",
    )
    @argument(
        "--gate",
        metavar="NAME",
        action="append",
        default=[],
        help="a function in the notebook, gate(call, run), that allows or denies a call, or asks you about it; repeatable",
    )
    @approve_option
    @allow_url_option
    @argument("-o", "--out", metavar="NAME", default="", help="the variable that will hold the run (default: run)")
    @run_options
    @extension_options
    @argument(
        "--continue",
        dest="go_on",
        metavar="RUN",
        nargs="?",
        const="",
        help="continue the conversation and the model or external agent of a run: a variable that holds one, or an id; by "
        "default the run in the variable of -o, or else the last one. Specify tools, guidance and --mode again",
    )
    @argument("--tag", metavar="WORD", action="append", default=[], help="a tag for finding the run; repeatable")
    @argument(
        "--context",
        metavar="NAME[:ENTITY]",
        default="",
        help="what the conversation is about, such as project:p-1: %%agent contexts lists the contexts, %%%%context NAME "
        "writes one. Any other word is kept as run.context_type",
    )
    @argument(
        "--on-stop",
        metavar="WHAT",
        choices=ON_STOP,
        default="",
        help="after the Stop button or %%agent stop: raise (default), which also stops Run All, or continue with the next "
        "cell. Kernel > Interrupt always stops Run All",
    )
    @argument("--background", action="store_true", help="return at once; watch and steer it with %%agent status, say, stop")
    @argument("--raw", action="store_true", help="send the text as it is, without replacing {{ name }}")
    @argument("--dry", action="store_true", help="show the first request and the tool schemas; send nothing")
    @cell_magic("agent")  # type: ignore[arg-type]  # typed for functions, used on methods
    def agent_cell(self, line: str, cell: str) -> Answer | None:
        """Let an agent work on the text of this cell, with functions in the notebook as its tools.

        The cell waits until the run has ended, puts it in ``run`` (or -o NAME), and its result is the agent's answer.
        ``{{ name }}`` in the text is replaced by that variable. Stop in the card and Kernel > Interrupt end the run and the
        cell, and keep the results so far; --continue continues at that point, also after a limit. Options you omit come from
        %agent defaults, where limits can be set for all cells; a limit of none, such as --budget none, is no limit.
        """
        options = parse_options(AgentMagics.agent_cell, line)
        cell = cell.replace("\r\n", "\n")
        variables = self.shell.user_ns
        given_out, options.out = options.out, check_variable(options.out or USUAL_OUT)
        prompt = (cell if options.raw else interpolate(cell, variables)).strip("\n")
        if not options.raw and (missed := near_misses(cell, variables)):
            print(f"{missed}. To send it without this note: --raw")
        before = None
        if options.go_on is not None:
            before, continuation_note = continued_run(self.session, variables, options.go_on, given_out)
            if continuation_note:
                print(continuation_note)
        return with_consent(partial(self._run_cell, options, prompt, options.out, before), asker(self.shell))

    def _run_cell(self, options: Namespace, prompt: str, out: str, before: Run | None) -> Answer | None:
        """Start the run of a cell, or show its first request; wait for it unless it runs in the background."""
        foreground = None if options.background or options.dry else Foreground()
        with nullcontext() if foreground is None else foreground.own_interrupts():
            choice = self.session.contexts.choose(unquote(options.context), before)
            if not prompt.strip() and choice.context is None:
                if before is None:
                    raise SettingsError("This cell has no task", "Write what the agent should do below the %%agent line")
                prompt = builtin_prompt("continue")
            agent, note = self._agent(options, before, choice)
            if options.dry and not prompt.strip():
                print("No model would be called: a blank message in a context is answered with a question")
                return None
            if options.dry:
                request = self.session.first_request(agent, prompt, before)
                wire, servers = wire_form(agent.used_model, request), agent.toolbox.servers
                print(dry_text(agent.model_name, request, wire, limits_line(agent), servers))
                return None
            self._tell_once(choice.note, note)
            if before is not None and (hint := tools_before(before, agent)):
                print(hint)
            run_options = RunOptions(
                continue_from=before,
                foreground=foreground,
                tags=tuple(options.tag),
                context_type=choice.word,
                approval_mode=options.approve,
                permissions=typed_rules(options.rules),
                allow_urls=options.allow_urls,
                invocation=invocation_of(options),
            )
            start = partial(self.session.start, agent, prompt)
            return cell_runs(self.shell, self.session).run(start, out, run_options, on_stop=options.on_stop)

    @one_line_errors
    @no_var_expand
    @line_magic("agent")  # type: ignore[arg-type]  # as above
    def agent_line(self, line: str) -> Any:
        """Steer and look: %agent status, stop, pause, resume, say, answer, approve, todos, permissions, guidance, contexts,
        acp, models, tools, key, defaults, history, load, delete, undo, mcp or recover.

        ``%agent`` alone says what each does, ``%agent permissions?`` how one is used. Write a task for an agent in a cell that
        begins with %%agent.
        """
        return command(self.session, self.shell, line)

    @one_line_errors
    @magic_arguments("replay")
    @argument(
        "name",
        nargs="?",
        metavar="FILE_OR_NAME",
        default="",
        help="a file of any format, an example such as complex-fails, a variable with a run, or the id of a run; default: the "
        "last run",
    )
    @argument("-g", "--guidance", metavar="NAME", default="", help="the guidance set (default: the run's own, else matrix)")
    @argument("-p", "--policy", metavar="NAME", default="", help="matrix, minimal or chat (default: the run's, else matrix)")
    @argument("-d", "--detect", metavar="NAME", default="", help="detectors: a preset such as default, or a variable")
    @argument("--workflow-mode", action="store_true", help="use the workflow mode of the policy matrix")
    @argument("--max-rounds", metavar="N", type=int, help="use this round limit")
    @argument(
        "-o", "--out", metavar="NAME", default="replayed", help="the variable that will hold the replay (default: replayed)"
    )
    @line_magic("replay")  # type: ignore[arg-type]  # as above
    def replay_line(self, line: str) -> Replay:
        """Show what other guidance, another policy or limit would have done with a recorded run, round by round.

        No model is called. ``replayed.table()`` is the table as a data frame.
        """
        options = parse_options(AgentMagics.replay_line, line, see="%replay? shows the options")
        return replay_named(self.session, self.shell.user_ns, options)

    @one_line_errors
    @magic_arguments("traces")
    @argument(
        "path",
        nargs="?",
        metavar="PATH",
        default="",
        help="a file of any format, a folder, a glob, a zip, or the name of an example, such as complex-fails; default: the "
        "runs of this session",
    )
    @argument("-o", "--out", metavar="NAME", default="runs", help="the variable that will hold the runs (default: runs)")
    @argument("--loose", action="store_true", help="read damaged files as far as possible")
    @argument("--import", dest="do_import", action="store_true", help="copy the runs into this session's store")
    @argument(
        "--existing",
        metavar="WHAT",
        choices=CHOICES,
        default="",
        help="what --import does with runs that are already in the store",
    )
    @line_magic("traces")  # type: ignore[arg-type]  # as above
    def traces_line(self, line: str) -> Browser | None:
        """Read traces of any product, put them into ``runs`` (one run: also ``run``), and show them in the trace browser.

        What cannot be read is left out and named; ``runs.problems`` has all of it.
        """
        return show_traces(self.session, self.shell, parse_options(AgentMagics.traces_line, line, see=SEE_TRACES), line.strip())

    @one_line_errors
    @magic_arguments("%guidance")
    @argument("name", metavar="NAME", help="the name of the set")
    @argument("-o", "--out", metavar="NAME", help="a variable that gets the GuidanceSet, for Agent(guidance=NAME)")
    @cell_magic("guidance")  # type: ignore[arg-type]  # as above
    def guidance_cell(self, line: str, cell: str) -> Any:
        """Write a guidance set: Markdown with a heading for each part, or without headings for all four cells.

        Parts are todos_tools, todos_text, tools, text; reminder, warning, final_warning, planning; stronger, strongest,
        workflow, already_said, tool_failed, tool_failed_again, failure_loop, todo_list, note. Missing parts come from the
        built-in set. Variables: {{ round }} {{ max_rounds }} {{ todos }} {{ open_todos }} {{ next_todo }}
        {{ completing_call }} {{ ignored }} {{ failed_tools }} {{ failed_rounds }}.
        Use it: %%agent -g NAME
        """
        options = parse_options(AgentMagics.guidance_cell, line)
        out = check_variable(options.out) if options.out else ""
        guidance_set = self.session.write_set(options.name, cell)
        before = self.shell.user_ns.get(options.name)
        for name in (out, options.name if isinstance(before, GuidanceSet) and before.name == guidance_set.name else ""):
            if name:  # also a variable set by an earlier version of this cell
                self.shell.user_ns[name] = guidance_set
        print(written_message(guidance_set))

    @one_line_errors
    @magic_arguments("%context")
    @argument("name", metavar="NAME", help="the name of the context, one word")
    @argument("-o", "--out", metavar="NAME", help="a variable that gets the ContextType, for context.apply(agent)")
    @cell_magic("context")  # type: ignore[arg-type]  # as above
    def context_cell(self, line: str, cell: str) -> None:
        """Write a context: what a conversation is about, and what follows from that for the agent, in YAML.

        Keys are intent, behaviours, profile (speed, balanced or quality), tools (first, confirm), plan_rules, limits, aliases,
        and load, the name of a function in the notebook that returns text about an entity. %agent contexts NAME shows one.
        Use it: %%agent --context NAME, or NAME:ENTITY
        """
        options = parse_options(AgentMagics.context_cell, line)
        out = check_variable(options.out) if options.out else ""
        hidden = self.shell.user_ns_hidden  # names of IPython, such as exit
        functions = {name: value for name, value in self.shell.user_ns.items() if hidden.get(name) is not value}
        # With a line in place of the magic's, so that problems have the line numbers of the cell.
        context = ContextType.read(f"\n{cell}", unquote(options.name), functions)
        self.session.contexts.write(context)
        if out:
            self.shell.user_ns[out] = context
        print(context_message(context))

    def _agent(self, options: Namespace, before: Run | None, choice: ContextChoice) -> tuple[Agent, str]:
        chosen = AgentOptions(
            unquote(options.model),
            words_of(options.tools),
            options.guidance or "",
            options.policy or "",
            options.workflow_mode,
            unquote(options.output),
            words_of([options.gate]),
            typed_settings(options),
            chosen_extensions(options),
            choice,
            unquote(options.acp),
            unquote(options.mode),
        )
        return make_agent(chosen, self.session, self.shell.user_ns, before)

    def _tell_once(self, *notes: str) -> None:
        for line in (*notes, self.session.store_note):
            if line and line not in self._told:
                self._told.add(line)
                print(line)
