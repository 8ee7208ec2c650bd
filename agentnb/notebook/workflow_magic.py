"""The magics ``%%workflow`` and ``%%plan``: they parse their lines, call the session and show results."""

from __future__ import annotations

import re
from argparse import BooleanOptionalAction, Namespace
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from IPython.core.magic import cell_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments

from agentnb.advice import as_advice
from agentnb.detect.run import Run
from agentnb.display.texts.notebook_commands import NOTEBOOK, in_notebook
from agentnb.errors import SettingsError
from agentnb.models.destinations.allowed_urls import with_consent
from agentnb.notebook.cells.cell_invocation import invocation_of
from agentnb.notebook.cells.extension_options import chosen_extensions, extension_option
from agentnb.notebook.cells.limit_options import allow_url_option, approve_option, run_option, tools_option
from agentnb.notebook.cells.notebook_runs import Answer, cell_runs
from agentnb.notebook.commands.recover import TRUST_LOG, trust_of
from agentnb.notebook.frontend import asker
from agentnb.notebook.magic_errors import SessionMagics, one_line_errors, parse_options
from agentnb.notebook.variable_names import (
    check_variable,
    find_agents,
    find_gates,
    find_inputs,
    find_model,
    tools_for_file,
    unquote,
    words_of,
)
from agentnb.rerun.expect import EXTENSION as EXPECT
from agentnb.rerun.expect import check_steps
from agentnb.runtime.host.run_options import RunOptions
from agentnb.runtime.runs.orchestration import Orchestration
from agentnb.runtime.workers.foreground import Foreground
from agentnb.session.choice import choose_model_of_workflow
from agentnb.session.option_defaults import ON_STOP, typed_rules
from agentnb.workflow.form.problems import workflow_problems
from agentnb.workflow.plan import Plan
from agentnb.workflow.plans.plan_checks import validate_plan
from agentnb.workflow.plans.planner_inputs import check_planner_inputs, check_planner_models
from agentnb.workflow.workflow import Workflow

_JSON = re.compile(r'\{\s*["}]')
NO_FRAME = 1_000_000
"""A stack depth beyond any frame, so that only the notebook's own variables are inserted into a line."""


@magics_class
class WorkflowMagics(SessionMagics):
    """The magics ``%%workflow`` and ``%%plan``."""

    @one_line_errors
    @magic_arguments("%workflow")
    @argument("-m", "--model", metavar="MODEL", help="the default model of agents: provider:model, or a variable")
    @tools_option("functions in the notebook, or lists of functions")
    @argument("--prompt", metavar="TEXT", default="", help="the task for the agents, in quotation marks")
    @argument(
        "-i",
        "--inputs",
        metavar="NAME",
        default="",
        help="its inputs by name: a variable that holds a dict, JSON in quotation marks, or a JSON or YAML file",
    )
    @argument(
        "--gate",
        metavar="NAME",
        action="append",
        default=[],
        help="a function in the notebook, gate(call, run), that allows or denies its agents' calls; repeatable",
    )
    @approve_option
    @allow_url_option
    @argument("-o", "--out", metavar="NAME", default="run", help="the variable that will hold the run (default: run)")
    @run_option("--budget")
    @run_option("--unpriced")
    @extension_option(EXPECT)
    @argument(
        "--rerun-from",
        metavar="STEP",
        default="",
        help="start at this step; earlier steps keep their outputs from the run in the variable (-o)",
    )
    @argument(
        TRUST_LOG,
        action=BooleanOptionalAction,
        default=None,
        help="with --rerun-from: whether to apply the mode of a log not written by this agentnb",
    )
    @argument("--strict", action="store_true", help="treat warnings as errors")
    @argument(
        "--on-stop",
        metavar="WHAT",
        choices=ON_STOP,
        default="",
        help="after the Stop button or %%agent stop: raise (default), which also stops Run All, or continue with the next cell",
    )
    @argument("--background", action="store_true", help="return at once; watch and steer it with %%agent status, stop")
    @argument("--dry", action="store_true", help="check it and show its graph; run nothing")
    @no_var_expand
    @cell_magic("workflow")  # type: ignore[arg-type]  # typed for functions, used on methods
    def workflow_cell(self, line: str, cell: str) -> Answer | Workflow | None:
        """Run the workflow that this cell declares in YAML, with agents and functions of the notebook.

        The cell waits until it has ended, puts the run into ``run`` (or -o NAME), and its result is what ``output:`` names, or
        what the step that ran last gave. ``run.steps`` holds what each step gave. Agents come from its ``agents:``, or are
        variables of the notebook.
        """
        options, typed_inputs = self._options(line)
        out = check_variable(options.out)
        workflow = self._workflow(cell.replace("\r\n", "\n"), options)
        if options.dry:
            return workflow
        for warning in workflow.warnings:
            print(warning.text_for(NOTEBOOK))
        foreground = None if options.background else Foreground()
        earlier = self._earlier(options)
        run_options = RunOptions(
            foreground=foreground,
            approval_mode=options.approve,
            permissions=typed_rules(options.rules),
            trust_log=options.trust_log,
            allow_urls=options.allow_urls,
            invocation=invocation_of(options, inputs=typed_inputs),
        )
        if earlier is not None and options.approve is None:
            run_options = replace(run_options, trust_log=trust_of(earlier, options.trust_log, self.shell))
        orchestration, note = with_consent(partial(self._orchestration, workflow, options), asker(self.shell))
        if note:
            print(note)
        prompt = unquote(options.prompt) or ("" if earlier is None else earlier.prompt)
        start = partial(self.session.start, orchestration, workflow.prompt_of(prompt, options.inputs))
        with nullcontext() if foreground is None else foreground.own_interrupts():
            return cell_runs(self.shell, self.session).run(start, out, run_options, on_stop=options.on_stop)

    @one_line_errors
    @magic_arguments("%plan")
    @argument("-o", "--out", metavar="NAME", default="plan", help="the variable that will hold the plan (default: plan)")
    @tools_option("tools that the steps may call; only calls of named tools are checked")
    @cell_magic("plan")  # type: ignore[arg-type]  # as above
    def plan_cell(self, line: str, cell: str) -> Plan:
        """Check the plan that this cell holds in YAML or JSON, put it into ``plan`` (or -o NAME), and show its steps.

        All that is wrong with it is told at once, with the lines of the cell, and then the variable stays as it was. Nothing is
        run: await plan.run(tools=[...]) does that.
        """
        options = parse_options(WorkflowMagics.plan_cell, line)
        out, text = check_variable(options.out), cell.replace("\r\n", "\n")
        if not text.strip():
            raise SettingsError("This cell has no plan", "Write it in YAML or JSON below the %%plan line")
        words = words_of(options.tools)
        tools = tools_for_file(words, self.shell.user_ns, self.session.tool_groups()) if words else None
        text = f"\n{text.rstrip()}"  # with a line in place of the magic's, as below
        if problems := validate_plan(text, tools):
            raise workflow_problems(problems)
        plan = self.shell.user_ns[out] = Plan.read(text)
        return plan

    def _options(self, line: str) -> tuple[Namespace, str]:
        """Return the options, and the inputs as typed.

        ``{name}`` and ``$name`` are replaced as in any magic, except in JSON.
        """
        written = parse_options(WorkflowMagics.workflow_cell, line).inputs
        options: Namespace = parse_options(WorkflowMagics.workflow_cell, self.shell.var_expand(line, depth=NO_FRAME))
        options.inputs = find_inputs(written if _JSON.match(unquote(written)) else options.inputs, self.shell.user_ns)
        return options, written

    def _workflow(self, text: str, options: Namespace) -> Workflow:
        if not text.strip():
            raise SettingsError("This cell has no workflow", "Write it in YAML below the %%workflow line")
        variables = self.shell.user_ns
        agents = find_agents(variables)
        tools = tools_for_file(words_of(options.tools), variables, self.session.tool_groups())
        lines = f"\n{text}\n"  # with a line in place of the magic's, so that problems have the line numbers of the cell
        workflow = Workflow.from_yaml(
            lines, strict=options.strict, agents=agents, tools=tools, inputs=options.inputs
        ).as_typed()
        # A variable with the same name as an agent of the file does not replace it.
        return replace(workflow, agents={name: agent for name, agent in agents.items() if name not in workflow.spec.agents})

    def _orchestration(self, workflow: Workflow, options: Namespace) -> tuple[Orchestration, str]:
        name, note = unquote(options.model), as_advice("")
        if not name:
            chosen, note = choose_model_of_workflow(workflow, self.session.defaults["model"])
            name = chosen or ""
        extensions = chosen_extensions(options)
        expected = [text for extension in extensions if extension.name == EXPECT for text in extension.settings["texts"]]
        check_steps(expected, workflow.step_paths)
        gates = find_gates(words_of([options.gate]), self.shell.user_ns)
        limits, of_agents = self.session.workflow_settings()
        limits = {name: value for name, value in limits.items() if name not in workflow.spec.limits}
        arguments: dict[str, Any] = {
            "model": find_model(name, self.shell.user_ns) if name else None,
            "agent_settings": {
                **of_agents,
                **({"gates": gates} if gates else {}),
                **({"unpriced": True} if hasattr(options, "unpriced") else {}),
            },
            "settings": {"extensions": [extension.as_logged for extension in extensions]} if extensions else None,
            "inputs": options.inputs,
            **limits,
            **({"budget": options.budget} if hasattr(options, "budget") else {}),
            "rerun_from": unquote(options.rerun_from) or None,
            "of": self._earlier(options),
        }
        check_planner_inputs(workflow.declared, options.inputs, workflow.tools, Path.cwd())
        check_planner_models(workflow.declared, options.inputs, arguments["model"])
        return workflow.orchestration(**arguments), in_notebook(note)

    def _earlier(self, options: Namespace) -> Run | None:
        """Return the run whose outputs ``--rerun-from`` uses, or None if that option is not set."""
        if not options.rerun_from:
            return None
        earlier = self.shell.user_ns.get(options.out)
        if not isinstance(earlier, Run) or earlier.kind != "workflow":
            problem = f"--rerun-from {options.rerun_from}: the variable {options.out} does not hold a workflow run"
            raise SettingsError(
                problem, "Name a variable that does: -o NAME. %agent load ID loads a stored run into the variable run"
            )
        return earlier
