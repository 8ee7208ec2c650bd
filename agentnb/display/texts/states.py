"""Wording for the state of a run, the same everywhere, why it ended, and the next command."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from msgspec.structs import replace

from agentnb.advice import (
    AnswerRun,
    AnyAdvice,
    AskInstead,
    Commands,
    ContinueRun,
    Invocation,
    RecoverRun,
    RerunSteps,
    StartAgain,
    TryAgain,
    pieces,
    with_advice,
)
from agentnb.core.log.events import NO_STORE, CompactionStarted
from agentnb.core.log.outcome import Assessment
from agentnb.core.messages import ToolResult
from agentnb.core.plans.plan_history import EXECUTION, PLANNING
from agentnb.core.plans.plan_steps import CALL
from agentnb.core.redaction import change_texts
from agentnb.core.run.agent_state import PlanPosition
from agentnb.core.run.approvals import NEVER, READ_ONLY, ended_at_question
from agentnb.core.run.rounds import DENIED, INTERRUPTED, LOST, MAX_TOOL_CALLS_PER_TURN, UNCHECKED, CallRecord, WorkflowRound
from agentnb.core.run.timeline import pending_retry
from agentnb.core.todos import Todo, open_todos
from agentnb.detect.agent_runs import works_in_steps
from agentnb.detect.run import Run
from agentnb.detect.run_states import PLAN_REJECTED, STATES, RunState, end_word, kind_of_counted_calls, state_of
from agentnb.display.texts.call_labels import arguments, state
from agentnb.display.texts.labels import clean, dollars, first_line, pluralize, short_id
from agentnb.display.texts.notebook_commands import NOTEBOOK, in_notebook
from agentnb.display.texts.question_labels import answer_told
from agentnb.policies.run_limits import LIMITS, SESSION_BUDGET
from agentnb.runtime.runs.gate_names import names_of_gates
from agentnb.workflow.files.logged_workflow import step_to_rerun

STEP_STATES = {
    "running": "running",
    "waiting": "waiting for you",
    "retrying": "waiting to retry",
    "completed": "done",
    "failed": "failed",
    "cancelled": "cancelled",
    "interrupted": "interrupted",
    "skipped": "skipped",
}
"""The word for each state of a step of a workflow."""
UNKNOWN_END = "Success is uncertain: this agent may report an error in its last message."
ENDED = {
    "todo_intervention_exhausted": "todos ignored",
    "workflow_mode_exhausted": "never completed",
    "blocked": "todos blocked",
    "refusal": "model declined",
    "loop_detected": "loop detected",
    NO_STORE: "question not answered",
}
"""Reasons for ending a run, in a few words, by stop reason."""
WHY_ENDED = {
    "todo_intervention_exhausted": "The agent was reminded of its open todos several times and did not continue with them.",
    "workflow_mode_exhausted": "The agent was reminded to continue several times and replied only with text.",
    "refusal": "The model declined to answer.",
}
"""Policies' reasons, as sentences."""
PLAN_WAITS = "Plan awaits your approval"
ENDS_EARLY = "The trace ends before the run does."
LIMIT_WORDS = {limit.name: limit.word for limit in (*LIMITS.values(), SESSION_BUDGET)}
"""The word for each limit."""
COUNTED = {"max_rounds": "round", "max_tool_calls": "tool call", "max_tokens": "token"}
"""The nouns that limits count."""
FINAL_ERRORS = frozenset({"ScriptEnded"})
"""Errors that would recur if the run were continued."""
SAYS_HOW_TO_CONTINUE = (TryAgain, StartAgain, AskInstead)
"""Kinds of advice that suffice as the next step after an error."""
VALUES_OF_OUTCOMES = {"passed": "true", "failed": "false", "unknown": "differ"}
"""Values of a trace's outcome field; ``differ`` means that several scores disagree."""
MAX_OF_AN_OUTCOME = 40
"""Maximum characters of a score's name, which comes from a file."""
MAX_OF_AN_EXPECTATION = 120
MAX_NAMED = 3
"""Maximum open steps and blocked todos named; the others are counted."""
MAX_OF_A_CALL = 160
"""Maximum characters of the arguments of a rejected call."""
MAX_EXPLAINED = 300
"""Maximum characters of a provider's reason for a refusal, a blocked todo's reason, and a tool's error."""


def state_words(state: RunState) -> str:
    """Return the state of a run in a few words, such as ``Done, todos open`` or ``Limit reached: 50 rounds``.

    All lists and cards use the same words.
    """
    word = end_word(state)
    if state.status == "limited":
        name, value = state.stop_reason, state.limit_value
        more = LIMIT_WORDS.get(name, "") if value is None else limit_words(name, value)
        return f"{word}: {more}" if more else word
    if state.status == "stopped":
        more = ENDED.get(state.stop_reason) or first_line(state.stop_reason, 60)
        return f"{word}: {more}" if more else word
    return word


def end_words(reason: str) -> str:
    """Return a stop reason or status in words, such as ``at the limit of rounds``; other text is returned unchanged."""
    plain = reason if " " in reason else reason.replace("_", " ")
    return f"at the limit of {plain.removeprefix('max ')}" if reason in LIMIT_WORDS else ENDED.get(reason, plain)


def chip(run: Run, *, hears: bool = False, position: PlanPosition | None = None) -> str:
    """Return the state in a few words; while the agent is working, they include the running tool or plan step.

    ``hears``: whether a reply is streaming; ``position``: position in a plan that a nested run is executing.
    """
    if run.status != "running":
        current = state_of(run)
        if current.status == "waiting_on_user" and any(question.kind == "plan_review" for question in run.waiting):
            return PLAN_WAITS
        label = state_words(current)
        return f"{label} by you" if label == PLAN_REJECTED and [*run.plans.values()][-1].by == "person" else label
    if run.agent_state == "waiting_on_user":
        return STATES[run.agent_state]
    return _executing(position or run.plan_position) if run.agent_state == "executing_plan" else _doing(run, hears)


def outcome_words(assessment: Assessment | None) -> str:
    """Return the outcome in a few words to put next to the state, such as ``reward 0``; empty if it is unknown."""
    if assessment is None:
        return ""
    if assessment.source != "trace":
        return f"{assessment.source} {assessment.outcome}"
    name = first_line(assessment.name, MAX_OF_AN_OUTCOME)
    if assessment.score is not None:
        return f"{name} {assessment.score:g}"
    return f"{name} {VALUES_OF_OUTCOMES[assessment.outcome]}"


def outcome_with_source(run: Run) -> str:
    """Return the outcome with its source: ``failed: reward 0 (tau-bench)``, ``passed: total == 28``; empty if it is unknown."""
    assessment = run.assessment
    if assessment is None:
        return ""
    if assessment.source == "trace":
        product = f" ({run.origin.format.replace('_', '-')})" if run.origin is not None else ""
        return f"{assessment.outcome}: {outcome_words(assessment)}{clean(product)}"
    name = first_line(assessment.name, MAX_OF_AN_EXPECTATION)
    label = name if assessment.source in ("expectation", "check") else f"label by {name}" if name else "label"
    return f"{assessment.outcome}: {label}" if label else assessment.outcome


def with_outcome(state: str, assessment: Assessment | None) -> str:
    """Return the words for the state and outcome, such as ``Done, reward 0``."""
    return ", ".join(filter(None, (state, outcome_words(assessment))))


def _executing(position: PlanPosition | None) -> str:
    """Return ``Executing plan, step 2 of 5``; before the first step, without a step."""
    is_at_step = position is not None and 0 < position.step <= position.steps
    return f"Executing plan, step {position.step} of {position.steps}" if position and is_at_step else "Executing plan"


def _doing(run: Run, hears: bool) -> str:
    current = run.open_round
    if current is None:
        return "Running" if run.rounds else _doing_steps(run)
    open_calls = [record.call.name for record in current.records if record.result is None]
    if open_calls and run.agent_state == "executing_tool":
        return f"Running {', '.join(dict.fromkeys(open_calls))}"
    if current.is_compacting and pending_retry(run) is None:
        replaced = next((event.messages for event in reversed(run.events) if isinstance(event, CompactionStarted)), 0)
        return f"Summarizing {pluralize(replaced, 'message')}"
    return "Retrying" if current.retries and current.reply is None and not hears else "Thinking"


def _doing_steps(run: Run) -> str:
    """Return the names of the open steps, omitting blocks; ``Starting`` before the first step."""
    if not run.step_records:
        return "Starting"
    running = [step for step in run.step_records.values() if step.status == "running"]
    blocks = {step.parent for step in running}
    names = [step.agent if step.kind == CALL else step.id.rpartition("/")[2] for step in running if step.id not in blocks]
    if any(step.agent == PLANNING for step in running):
        return "Planning"
    listed = ", ".join(first_line(name, 40) for name in names)
    return f"Running {listed if len(names) <= MAX_NAMED else pluralize(len(names), 'step')}".strip()


def is_foreign(run: Run) -> bool:
    """True if another product recorded the run, so that no agentnb command can continue it."""
    return run.origin is not None


def limit_words(name: str, value: float) -> str:
    """Return a limit in words, such as ``50 rounds``, ``$0.50`` or ``30 minutes``."""
    if name in COUNTED:
        return pluralize(round(value), COUNTED[name])
    if name == MAX_TOOL_CALLS_PER_TURN:
        return f"{pluralize(round(value), 'tool call')} in this turn"
    if name == "max_seconds":
        return f"{value:g} s" if value < 600 else f"{value / 60:g} minutes"
    if name == "budget":
        return dollars(value)
    if name == "session_budget":
        return f"{dollars(value)} in this session"
    return clean(f"{first_line(name, 60)} = {value:g}")


def shown_answer(run: Run) -> str:
    """Return the answer, which may be a final answer at a limit, a workflow's last output, or a reply produced without a model.

    Empty if there is no answer.
    """
    if run.is_plan_rejected:  # its last words are about the rejected plan
        return ""
    return run.text if run.is_answered or (run.status == "completed" and not run.rounds) else ""


def rounds_at_end(run: Run) -> list[WorkflowRound]:
    """Return the rounds. Calls without a result, because the process died or the trace ends, count as interrupted."""
    rounds = list(run.rounds)
    if run.status == "interrupted" and rounds:
        compactions = tuple([compaction for compaction in rounds[-1].compactions if compaction.compacted is not None])
        code = LOST if is_foreign(run) else INTERRUPTED
        records = tuple([_cut_off(record, code) for record in rounds[-1].records])
        rounds[-1] = replace(rounds[-1], records=records, compactions=compactions)
    return rounds


def _cut_off(record: CallRecord, code: str) -> CallRecord:
    if record.result is not None:
        return record
    return replace(record, result=ToolResult(record.call.id, record.call.name, (), is_error=True, error_code=code))


def rounds_words(run: Run) -> str:
    """Return ``3 rounds``; ``no reply`` for a finished run that has none; empty before the first round."""
    if run.rounds and not run.should_continue and all(run_round.reply is None for run_round in run.rounds):
        return "no reply"
    return pluralize(len(run.rounds), "round") if run.rounds else ""


def steps_words(run: Run) -> str:
    """Return ``3 steps``, ``2 plans`` for a run of a planner, or ``1 plan of 2 steps`` for a run in rounds that ran one."""
    if run.rounds:
        sizes = [len(plan.plan.get("steps") or ()) for plan in run.plans.values() if plan.id in run.step_records]
        return f"{pluralize(len(sizes), 'plan')} of {pluralize(sum(sizes), 'step')}" if sizes else ""
    first = next(iter(run.step_records.values()), None)
    if run.plans or (first is not None and first.agent == EXECUTION):  # a plan without a planner is not proposed
        return pluralize(len(run.plans) or 1, "plan")
    return pluralize(run.step_count, "step") if run.step_count else ""


def has_ended(run: Run) -> bool:
    """True if the run has ended. An interrupted run has not."""
    return not run.should_continue and run.status != "interrupted"


def is_going_on(run: Run) -> bool:
    """True if a process is working on the run: it has neither ended nor been suspended."""
    return run.should_continue and not run.is_suspended


def why(run: Run, commands: Commands = NOTEBOOK) -> str:
    """Return a sentence on why the run ended, unless its state already says so."""
    return "".join(reason_pieces(run, commands))


def reason_pieces(run: Run, commands: Commands = NOTEBOOK) -> list[str]:
    """Return the reason as `why` does, with each command as a separate piece."""
    if run.status == "failed" and run.error is not None:
        return pieces(clean(run.error.message), _for_run(run, run.error.advice), commands)
    reason = _why(run)
    return [reason] if reason else []


def _why(run: Run) -> str:
    if run.status == "failed":
        return "No reason was logged."
    if run.status == "limited" and run.limit is not None:
        answered = "The agent then answered with its results so far." if shown_answer(run) else ""
        return " ".join(filter(None, [_who_else(run), answered]))
    if run.status == "stopped":
        return clean(_why_stopped(run))
    if run.status == "completed":
        return clean(_why_not_good(run))
    if run.status != "interrupted":
        return ""
    return ENDS_EARLY if is_foreign(run) else "The kernel ended before the run did."


def _why_stopped(run: Run) -> str:
    """Return the policy's reason for ending the run, including the provider's explanation of a refusal."""
    if (run.stop_reason or "").endswith("_detected") and (run.loops or run.findings):
        sentence = run.loops[-1].sentence if run.loops else run.findings[-1].sentence
        return f"{sentence[:1].upper()}{sentence[1:].rstrip('.')}."
    if run.stop_reason == "blocked":
        return _why_blocked(run)
    sentence = WHY_ENDED.get(run.stop_reason or "", "")
    details = run.last_round.metadata.get("stop_details") if run.stop_reason == "refusal" and run.rounds else None
    values = [details.get(key) for key in ("category", "explanation")] if isinstance(details, dict) else []
    explained = ": ".join(
        first_line(value, MAX_EXPLAINED).rstrip(".") for value in values if isinstance(value, str) and value.strip()
    )
    return f"{sentence.rstrip('.')} ({explained})." if explained else sentence


def _why_blocked(run: Run) -> str:
    """Return the blocked todos with their reasons, the last failed call, and the number of completed todos."""
    blocked = [todo for todo in run.todos if todo.status == "blocked"]
    sentences = [_blocked_todo(todo) for todo in blocked[:MAX_NAMED]]
    if len(blocked) > MAX_NAMED:
        sentences.append(f"{pluralize(len(blocked) - MAX_NAMED, 'more todo')} blocked.")
    if failures := [*_failures(run)]:
        sentences.append(f"Last failed call: {failures[-1]}.")
    if done_count := len(run.todos) - len(open_todos(run.todos)):
        sentences.append(f"Nothing else is left to do: {done_count} of {pluralize(len(run.todos), 'todo')} completed.")
    return " ".join(sentences)


def _failures(run: Run, kind: str = "failed") -> Iterator[str]:
    """Yield the name, position and error of each call in a round or step whose state is ``kind``."""
    in_rounds = ((f"round {run_round.index + 1}", record) for run_round in run.rounds for record in run_round.records)
    in_steps = ((f"step {first_line(call.step, 60)}", call.record) for call in run.step_calls)
    for position, record in chain(in_rounds, in_steps):
        if record.result is not None and state(record) == kind:
            name, rejection = first_line(record.call.name, 60), _rejection(run, record)
            lines = record.result.text.split("\n")
            words = next((line for line in lines if line.strip() and not line.isupper()), lines[0])  # not the line "STDERR:"
            error = first_line(rejection or words.strip().partition(". ")[0], MAX_EXPLAINED).rstrip(
                ".:"
            )  # the rest advises the model
            call = f"{name} {arguments(record, MAX_OF_A_CALL)}".rstrip()
            yield f"{call} in {position}. {error}" if rejection else f"{name} in {position} ({error})"


def _rejection(run: Run, record: CallRecord) -> str:
    """Return the words in which the person rejected a call; its result has the words for the model."""
    asked = [asked for asked in run.questions if asked.question.kind == "approval" and asked.question.call_id == record.call.id]
    is_denied = record.result is not None and record.result.error_code == DENIED
    return answer_told(asked[-1]).replace(" rejected", " rejected it", 1) if asked and is_denied else ""


def _why_not_good(run: Run) -> str:
    """Return why a completed run is not a success: a rejected plan, or a failed call."""
    if run.is_plan_rejected:
        plan = [*run.plans.values()][-1]
        words = first_line(plan.words or plan.reason, MAX_EXPLAINED).rstrip(".")
        words = f"“{words}”" if words and plan.by == "person" else words
        again = "" if is_foreign(run) else " For another plan, change the prompt and run it again."
        return f"No step of the plan ran{f': {words}' if words else ''}.{again}"
    if run.outcome == "passed":
        return ""
    kind, word = ("failed", "failed") if run.failed_calls else ("blocked", "rejected")
    first = next((f"First {word} call: {call}." for call in _failures(run, kind)), "")
    return first or (UNKNOWN_END if run.stop_reason == UNCHECKED and run.assessment is None else "")


def _blocked_todo(todo: Todo) -> str:
    name = f'Todo {todo.id}, "{first_line(todo.title, 100)}", is blocked'
    return f"{name}: {first_line(todo.blocked_reason, MAX_EXPLAINED).rstrip('.')}." if todo.blocked_reason else f"{name}."


def _who_else(run: Run) -> str:
    """Return a note if nested runs spent part of the run's budget; otherwise ""."""
    limit = run.limit
    shared = limit is not None and limit.limit == "budget" and run.own_spent < limit.value
    return "Nested runs used part of it." if shared else ""


def next_step(run: Run) -> AnyAdvice | None:
    """Return advice on continuing the run.

    None if it completed without rejected calls, is in progress, or was recorded by another product.
    """
    is_over = run.status in ("limited", "cancelled", "stopped") and continuation(run) is None
    return None if is_over or is_foreign(run) else _next_step(run)


def _next_step(run: Run) -> AnyAdvice | None:
    if run.status == "limited" and run.limit is not None:
        spent = run.spent if run.limit.limit == "budget" else 0.0  # one call may cost much more than a small budget
        return _with_more(run, run.limit.limit, 2 * run.limit.value if spent <= run.limit.value else float(f"{2 * spent:.1g}"))
    if run.status in ("cancelled", "stopped") or kind_of_counted_calls(state_of(run)) == "rejected":
        step = continuation(run)
        return replace(step, todo=_blocked_id(run)) if run.stop_reason == "blocked" and isinstance(step, ContinueRun) else step
    if run.status == "failed" and (run.rounds or step_to_rerun(run)):
        return _after_failure(run)
    tools, gates = tuple(map(clean, run.own_tools)), tuple(map(clean, names_of_gates(run)))
    if run.status == "interrupted":
        return RecoverRun(clean(short_id(run.id)), tools, gates, invocation_of(run), lead="Recover")
    if run.is_suspended and not ended_at_question(run):  # without a store, a note says how to be asked
        return AnswerRun(clean(short_id(run.id)), _first_of_several(run), tools, gates, invocation_of(run), lead="Answer")
    return None


def live_answer(run: Run) -> AnswerRun | None:
    """Return advice on how to answer the first open question, if any, of a live run whose card has no buttons."""
    if not (run.waiting and is_going_on(run)):
        return None
    return AnswerRun(clean(short_id(run.id)), _first_of_several(run), is_live=True, lead="Answer it")


def _first_of_several(run: Run) -> str:
    """Return the id of the first open question, or "" if there is only one."""
    return clean(run.waiting[0].id) if len(run.waiting) > 1 else ""


def invocation_of(run: Run) -> Invocation:
    """Return the options with which the run was started, in displayable form."""
    return change_texts(run.invocation, clean) or Invocation(surface="python")


def continuation(run: Run) -> ContinueRun | RerunSteps | None:
    """Return advice on how to continue the run with its tools; for a workflow, from its unfinished step.

    Returns None for a task file, or a workflow that was stopped before its first step: these must be rerun completely.
    """
    if works_in_steps(run):
        step = step_to_rerun(run)
        return RerunSteps(clean(step), by=invocation_of(run), lead="Continue") if step else None
    lead, by = _before_continuing(run)
    return ContinueRun(tools=tuple(map(clean, run.tool_words)), by=by, lead=lead)


def _before_continuing(run: Run) -> tuple[str, Invocation]:
    """Return what to do before the run can continue, and the options with which it can."""
    by = invocation_of(run)
    if run.stop_reason != "blocked":
        return "Continue", by
    records = (record for run_round in run.rounds for record in run_round.records)
    denied = [record for record in records if record.result is not None and record.result.error_code == DENIED]
    if not denied:
        return "Remove the cause, then continue", by
    if _rejection(run, denied[-1]):
        return "Continue", by
    if by.approve in (NEVER, READ_ONLY):
        return f"Continue without the mode {by.approve}, so that the call asks you", replace(by, approve="")
    return f"{'Change the --rule below' if by.rules else 'Allow the call'}, then continue", by


def continue_command(run: Run) -> str:
    """Return the first line of a notebook cell that would continue the run, or ""."""
    step = continuation(run)
    return in_notebook([replace(step, lead="")]) if step is not None else ""


def continue_hint(run: Run) -> str:
    """Return a hint, as a notebook command, on how to continue a stopped run or start it again."""
    command = continue_command(run)
    return f"Continue with {command}" if command else "To start over, run its cell again"


def _blocked_id(run: Run) -> str:
    """Return the id of the blocked todo, which stays blocked when the run continues."""
    blocked = [todo.id for todo in run.todos if todo.status == "blocked"]
    return str(blocked[0]) if len(blocked) == 1 else "ID"


def _after_failure(run: Run) -> AnyAdvice | None:
    """Return advice on how to continue a failed run, unless its error already has advice or it would only fail again."""
    error, step = run.error, continuation(run)
    if step is None or (
        error is not None
        and (error.type in FINAL_ERRORS or any(isinstance(item, SAYS_HOW_TO_CONTINUE) for item in error.advice))
    ):
        return None
    has_advice = error is not None and error.advice and not error.traceback  # else it only names the traceback
    return replace(step, lead="Then continue") if has_advice else step


def _with_more(run: Run, name: str, value: float) -> AnyAdvice | None:
    """Return advice on how to continue the run with this limit, if it can be set. The count of calls per turn restarts by
    itself.
    """
    step = continuation(run)
    limit = LIMITS.get(name)
    may_be_more = limit is not None and limit.name != MAX_TOOL_CALLS_PER_TURN and value <= limit.maximum
    takes_it = name == "budget" or run.kind == "agent"  # a workflow's other limits are in its text
    is_raised = name == SESSION_BUDGET.name or (may_be_more and takes_it)
    return replace(step, limit=name, value=value) if step is not None and is_raised else step


def ending(run: Run, commands: Commands = NOTEBOOK) -> str:
    """Return why the run ended and the next command, on one line; empty if the run simply completed."""
    return "".join(ending_pieces(run, commands))


def ending_pieces(run: Run, commands: Commands = NOTEBOOK) -> list[str]:
    """Return the text of `ending`, with each command as a separate piece."""
    step, reason = next_step(run), reason_pieces(run, commands)
    return reason if step is None else with_advice(reason, [step], commands)


def notes(run: Run, commands: Commands = NOTEBOOK) -> list[str]:
    """Return the warnings to the person, except those about filled gaps, and about open todos, as the list shows these."""
    return ["".join(note) for note in note_pieces(run, commands)]


def note_pieces(run: Run, commands: Commands = NOTEBOOK) -> list[list[str]]:
    """Return the texts of `notes`, with each command as a separate piece."""
    shown = [warned for warned in run.warned if warned.topic != "filled" and not (run.todos and warned.topic == "todos")]
    return [pieces(clean(warned.message), _for_run(run, warned.advice), commands) for warned in shown]


def _for_run(run: Run, advice: tuple[AnyAdvice, ...]) -> tuple[AnyAdvice, ...]:
    """Add the run's options to the advice in an error or warning; they were unknown where it arose."""
    tools, invocation = tuple(map(clean, run.tool_words)), invocation_of(run)
    return tuple(
        [
            replace(item, tools=tools, by=invocation) if isinstance(item, TryAgain) else item
            for item in change_texts(advice, clean)
        ]
    )


def filled_gaps(run: Run) -> str:
    """Return sentences about gaps in a foreign trace that its reader filled, or ""."""
    return " ".join(clean(warned.message) for warned in run.warned if warned.topic == "filled")


def closing_pieces(run: Run) -> list[list[str]]:
    """Return the notes, why the run ended and the next command, with each command as a separate piece."""
    return [note for note in (*note_pieces(run), ending_pieces(run)) if note]
