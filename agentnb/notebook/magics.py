"""The magics: parse, call the session, show. Nothing is decided here."""

from __future__ import annotations

from argparse import Namespace
from contextlib import nullcontext
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments

from agentnb.agent.agent import Agent
from agentnb.agent.guidance import GuidanceSet
from agentnb.agent.live import LiveRun
from agentnb.agent.policies.named import find_policy, in_workflow_mode
from agentnb.agent.threads import Foreground, RunInterrupted
from agentnb.core.run import Run
from agentnb.errors import RunFailed, SettingsError
from agentnb.models.registry import wire_form
from agentnb.notebook.answer import Answer
from agentnb.notebook.can_ask import can_ask
from agentnb.notebook.card_widget import LeftOpen
from agentnb.notebook.commands import command
from agentnb.notebook.dry import dry_text
from agentnb.notebook.guidance_cell import find_guidance, written
from agentnb.notebook.interpolation import interpolate
from agentnb.notebook.names import check_variable, find_model, find_tools, tools_before
from agentnb.notebook.one_line import one_line, parsed
from agentnb.notebook.view_for import view_for
from agentnb.session.choice import choose_model
from agentnb.session.session import Session

LATER = {
    "--budget": "budgets",
    "--context": "context types",
    "--approve": "approvals",
}
"""Options that the documentation promises for a later version."""

QUESTION = "What should the agent do? Write the task below the %%agent line."


@magics_class
class AgentMagics(Magics):
    """``%%agent`` and ``%agent``."""

    shell: InteractiveShell

    def __init__(self, shell: InteractiveShell, session: Session) -> None:
        super().__init__(shell)
        self.session = session
        self._told: set[str] = set()
        self._left_open = LeftOpen()

    @one_line
    @magic_arguments("%agent")
    @argument(
        "-m",
        "--model",
        metavar="MODEL",
        help="provider:model, or a variable that holds a model; %%agent models lists the names",
    )
    @argument("-t", "--tools", metavar="TOOL", action="append", nargs="+", help="functions of the notebook, or lists of them")
    @argument(
        "-g",
        "--guidance",
        metavar="NAME",
        help="the guidance set: %%agent guidance lists them, %%%%guidance NAME writes one (default: matrix)",
    )
    @argument("-p", "--policy", metavar="NAME", help="how the agent is kept to its work: matrix or minimal (default: matrix)")
    @argument(
        "--workflow-mode",
        action="store_true",
        help="words alone do not end the run: the model says when it is complete (with the policy matrix)",
    )
    @argument("-o", "--out", metavar="NAME", default="run", help="the variable that gets the Run (default: run)")
    @argument("--max-rounds", metavar="N", type=int, help="model calls it may take (default: 50)")
    @argument(
        "--continue",
        dest="go_on",
        action="store_true",
        help="go on with the conversation and the model of the last run; tools and guidance are named anew",
    )
    @argument("--background", action="store_true", help="return at once; watch and steer it with %%agent status, say, stop")
    @argument("--raw", action="store_true", help="send the text as it is: no {{ name }} is replaced")
    @argument("--dry", action="store_true", help="show the first request and the tool schemas; send nothing")
    @cell_magic("agent")  # type: ignore[arg-type]  # typed for functions, used on methods
    def agent_cell(self, line: str, cell: str) -> Answer | None:
        """Let an agent work on the text of this cell, with functions of the notebook as its tools.

        The cell waits until the run has ended, puts it in ``run`` (or -o NAME), and its result is the agent's answer.
        ``{{ name }}`` in the text is replaced by that variable. Kernel > Interrupt ends the run and keeps what it has.
        """
        options = parsed(AgentMagics.agent_cell, line, LATER)
        cell = cell.replace("\r\n", "\n")
        if not cell.strip():
            print(QUESTION)
            return None
        variables = self.shell.user_ns
        out = check_variable(options.out)
        prompt = cell.strip("\n") if options.raw else interpolate(cell, variables).strip("\n")
        before = self.session.last_run() if options.go_on else None
        foreground = None if options.background or options.dry else Foreground()
        with nullcontext() if foreground is None else foreground.own_interrupts():
            agent, note = self._agent(options, before)
            if options.dry:
                request = self.session.first_request(agent, prompt, before)
                print(dry_text(agent.model_name, request, wire_form(agent.model, request)))
                return None
            self._tell_once(note)
            if before is not None and (hint := tools_before(before, agent)):
                print(hint)
            return self._run(agent, prompt, before, out, foreground)

    @one_line
    @no_var_expand
    @line_magic("agent")  # type: ignore[arg-type]  # as above
    def agent_line(self, line: str) -> Any:
        """Steer and look: %agent status | stop | pause | resume | say TEXT | todos | models [PROVIDER] | key [NAME] |
        tools [NAME] | guidance [NAME] | defaults [KEY=VALUE] | history | load ID.

        ``%agent`` alone lists the commands. Write a task for an agent in a cell that begins with %%agent.
        """
        return command(self.session, self.shell, line)

    @one_line
    @magic_arguments("%guidance")
    @argument("name", metavar="NAME", help="what the set is called")
    @argument("-o", "--out", metavar="NAME", help="a variable that gets the GuidanceSet, for Agent(guidance=NAME)")
    @cell_magic("guidance")  # type: ignore[arg-type]  # as above
    def guidance_cell(self, line: str, cell: str) -> Any:
        """Write a guidance set: Markdown with a heading for each part, or without headings for all four cells.

        Parts are todos_tools, todos_text, tools, text; reminder, warning, final_warning, planning; stronger, strongest,
        workflow, already_said, todo_list, note. What is missing is as in the built-in set. Variables: {{ round }}
        {{ max_rounds }} {{ todos }} {{ open_todos }} {{ next_todo }} {{ completing_call }} {{ ignored }}.
        Use it: %%agent -g NAME
        """
        options = parsed(AgentMagics.guidance_cell, line, {})
        out = check_variable(options.out) if options.out else ""
        made = self.session.write_set(options.name, cell)
        before = self.shell.user_ns.get(options.name)
        for name in (out, options.name if isinstance(before, GuidanceSet) and before.name == made.name else ""):
            if name:  # also a variable that an earlier version of this cell has set
                self.shell.user_ns[name] = made
        print(written(made))

    def _agent(self, options: Namespace, before: Run | None) -> tuple[Agent, str]:
        note = ""
        name = (options.model or "").strip("\"'")  # as a shell would
        if not name:
            name, note = choose_model(self.session.defaults["model"], before)
        names = [part for group in options.tools or [] for word in group for part in word.split(",") if part]
        policy = find_policy(options.policy or self.session.defaults["policy"])
        if options.workflow_mode:
            policy = in_workflow_mode(policy)
        agent = Agent(
            find_model(name, self.shell.user_ns),
            tools=find_tools(names, self.shell.user_ns),
            guidance=find_guidance(options.guidance or self.session.defaults["guidance"], self.session, self.shell.user_ns),
            policy=policy,
            max_rounds=int(self.session.defaults["max-rounds"]) if options.max_rounds is None else options.max_rounds,
        )
        return agent, note

    def _tell_once(self, note: str) -> None:
        for line in (note, self.session.store_note):
            if line and line not in self._told:
                self._told.add(line)
                print(line)

    def _run(self, agent: Agent, prompt: str, before: Run | None, out: str, foreground: Foreground | None) -> Answer | None:
        if not prompt.strip():
            raise SettingsError("The prompt is blank once its variables are put in", "Look at the variables it names")
        blocks = foreground is not None
        view = view_for(self.shell, self._left_open, blocks=blocks, variable=out)

        def start() -> LiveRun:
            live = self.session.start(
                agent,
                prompt,
                continue_from=before,
                watch=view,
                foreground=foreground,
                can_ask=can_ask(self.shell, blocks=blocks),
            )
            self.shell.user_ns[out] = live.run
            view.show(live)
            return live

        if foreground is None:
            print(f"Run {start().run_id} goes on in the background. See %agent status")
            return None
        try:
            run = LiveRun.foreground(foreground, start)
        except RunInterrupted as interrupt:
            if not interrupt.closed:
                self.session.leave_foreground()
            raise
        if run.status == "failed":
            why = str(run.error) if run.error else "no reason given"
            raise RunFailed(
                f"The run failed in round {len(run.rounds)}: {why}",
                f"What it did is in {out}; go on with %%agent --continue",
                run=run,
            )
        return Answer(run.text) if run.is_answered else None
