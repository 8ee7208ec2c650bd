"""A plan draft awaiting approval: an editable table, and what the plan may do once approved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from agentnb.chat.plans.draft_edits import step_form
from agentnb.chat.plans.known_drafts import spec_of
from agentnb.chat.plans.plan_execution import specs_of_plans
from agentnb.chat.plans.plan_reach import Reach, reach_of
from agentnb.core.plans.plan_steps import PlanStep
from agentnb.core.questions import AskedQuestion
from agentnb.core.request import ToolSpec
from agentnb.core.run.agent_state import PLAN_TOOL
from agentnb.core.run.approvals import APPROVE, DENY, decision, is_edit, is_of_draft
from agentnb.core.run.rounds import CallRecord
from agentnb.core.run.work_records import PlanRecord
from agentnb.detect.run import Run
from agentnb.display.form import Form
from agentnb.display.markup import NOTHING, Html, fold_tag, join_html, tag, words
from agentnb.display.parts.questions.answer_controls import approval_controls
from agentnb.display.parts.questions.schema_form import fields_html
from agentnb.display.texts.labels import amount, dollars, pluralize
from agentnb.display.texts.question_labels import ASKED, ASKS, HAD_ASKED, answer_told
from agentnb.display.texts.visible_text import visible
from agentnb.errors import SettingsError
from agentnb.workflow.plans.plan_spec import PlanSpec

DRAFT, STEP_FORM = "draft", "step"
"""The actions that change the steps of a draft: by a button, and by the form of one step."""
MAX_FORMS = 40
"""Maximum steps of a draft that have a form. All steps are listed in full, since all may run."""
MAX_OF_REASONING, MAX_OF_WORDS = 4_000, 400
WORDS = {"approved": "Approved by your message: ", "rejected": "Rejected by your message: "}
"""Effect of the person's message on a draft, by status."""


def draft_html(asked: AskedQuestion, run: Run, form: Form) -> Html:
    """Return the question about a draft. While it is open, include the table of steps and the controls for answering."""
    record = run.plans[asked.question.call_id]
    about = [
        question for question in run.questions if question.question.call_id == record.id and is_of_draft(run, question.question)
    ]
    if about[-1].question.id != asked.question.id or (asked.outcome == "answered" and is_edit(asked.answer)):
        return NOTHING  # the last question has the draft as it is now
    try:
        plan = spec_of(record)
    except SettingsError:  # of a log from elsewhere
        return NOTHING
    specs = specs_of_plans(run.tools)
    is_open = asked.outcome == "open"
    is_asked = is_open and form.live and not form.over
    title = (HAD_ASKED if form.over else ASKS) if is_open else ASKED
    head = tag("div", "asked" if is_open else "quiet", title["plan_review"], _edits(record))
    reach = reach_of(plan, specs)
    table = _table(plan, specs, reach, editable=is_asked)
    if not is_open:
        decision_line = tag("div", "said", _by_words(record) or _draft_outcome(asked))
        nested = form.nested(asked.question.call_id, form.folds)
        return tag("div", "question-closed", head, table, decision_line, nested, role="group", aria_label="A draft of a plan")
    parts = [head, _problem(asked), _reasoning(plan), table]
    parts += [_add(plan)] if is_asked else []
    parts.append(_reach(run, plan, reach))
    answers = NOTHING if form.over else tag("div", "quiet", f"Answers: {APPROVE}, {DENY}")
    parts += approval_controls(asked.question, may_wait=True) if is_asked else [answers]
    return tag("div", "question", *parts, role="group", aria_label="A draft of a plan")


def plan_notes(record: CallRecord, run: Run | None) -> Html:
    """Return the review of the plan that a call made, and the person's message that decided on it; empty for other calls."""
    if run is None or record.call.name != PLAN_TOOL:
        return NOTHING
    plan = next((plan for plan in run.plans.values() if plan.call_id == record.call.id), None)
    reviews = [f"Reviewed: {review.verdict.replace('_', ' ')}. {review.notes}" for review in (plan.reviews if plan else ())]
    arguments = record.call.arguments if isinstance(record.call.arguments, dict) else {}
    decided = run.plans.get(str(arguments.get("plan_id") or ""))
    decision_line = "" if decided is None else _by_words(decided)
    return join_html(*[tag("div", "quiet", words(visible(line), MAX_OF_WORDS)) for line in (*reviews, decision_line) if line])


def _by_words(plan: PlanRecord) -> str:
    """Return the decision that the person's message made on a plan; empty if no message decided on it."""
    return f"{WORDS[plan.status]}“{plan.words}”" if plan.words and plan.status in WORDS else ""


def _edits(record: PlanRecord) -> Html:
    return tag("span", "quiet", f" · you changed it {pluralize(record.edits, 'time')}") if record.edits else NOTHING


def _problem(asked: AskedQuestion) -> Html:
    """Return why the most recent edit was refused."""
    problem = asked.question.problem
    return tag("div", "field-error", problem, role="alert") if problem else NOTHING


def _reasoning(plan: PlanSpec) -> Html:
    return tag("div", "question-text", words(visible(plan.reasoning), MAX_OF_REASONING)) if plan.reasoning else NOTHING


_REFUSED = tag("div", "field-error", data_refused=True, role="alert")
"""The element in which the page says why a change was refused, at a step or at the button for adding one."""


def _table(plan: PlanSpec, specs: Sequence[ToolSpec], reach: Sequence[Reach], *, editable: bool) -> Html:
    """Return the steps as a table which, if editable, has controls for each step."""
    names = ["", "Step", "After step", *([""] if editable else [])]
    head = tag("tr", "draft-row", *[tag("th", "draft-head", name, scope="col") for name in names])
    rows = [_row(plan, position, specs, question, editable=editable) for position, question in enumerate(reach)]
    return tag("table", "draft", tag("thead", "", head), tag("tbody", "", *rows))


def _row(plan: PlanSpec, place: int, specs: Sequence[ToolSpec], reach: Reach, *, editable: bool) -> Html:
    step = plan.steps[place]
    number = str(step.number or place + 1)
    description = tag("div", "", visible(step.description or step.type))
    form = _form(plan, place, specs) if editable and place < MAX_FORMS else NOTHING
    refused = _REFUSED if editable else NOTHING
    cells = [tag("td", "draft-cell draft-side", number), tag("td", "draft-cell", description, _how(step, reach), refused, form)]
    cells.append(tag("td", "draft-cell draft-side", ", ".join(map(str, step.depends_on))))
    if editable:
        cells.append(tag("td", "draft-cell draft-moves", *_moves(plan, place)))
    return tag("tr", "draft-row", *cells, data_row=True)


def _how(step: PlanStep, reach: Reach) -> Html:
    """Return the means of carrying out a step: a call with all its arguments, an agent with tools, or the model."""
    tools = ", ".join(step.tools)
    if reach == "executor":
        return tag("div", "draft-how", "An agent with ", tag("code", "draft-code", tools))
    if reach in ("reply", ""):
        return tag("div", "draft-how", "A reply from the model" if reach == "reply" else f"There is no tool {tools}")
    pairs = [f"{name}={msgspec.json.encode(value).decode()}" for name, value in (step.args or {}).items()]
    arguments = visible(", ".join(pairs))
    return tag("div", "draft-how", tag("code", "draft-code", step.tools[0], "(", arguments, ")"))


def _form(plan: PlanSpec, place: int, specs: Sequence[ToolSpec]) -> Html:
    """Return the fold that holds the form for a step."""
    name = f"{STEP_FORM}:{plan.id}:{place}"
    reset = tag("button", "button quiet-button", "Reset", type="reset", title="Discard what you typed")
    save = tag("div", "buttons", tag("button", "button", "Save the step", type="submit"), reset)
    about = {"data_do": STEP_FORM, "data_id": plan.id or "", "data_place": str(place)}
    body = fields_html(step_form(plan, place, specs), name, "The step, as JSON", [save], **about)
    return fold_tag("draft-edit", "", f"Edit step {place + 1}", body, data_fold=name)


def _moves(plan: PlanSpec, place: int) -> Iterator[Html]:
    """Yield the buttons that move or remove a step."""
    number = place + 1
    if place:
        yield _button(plan, "up", place, "↑", f"Move step {number} up")
    if number < len(plan.steps):
        yield _button(plan, "down", place, "↓", f"Move step {number} down")
    if len(plan.steps) > 1:
        yield _button(plan, "remove", place, "✕", f"Remove step {number}")


def _add(plan: PlanSpec) -> Html:
    button = _button(plan, "add", len(plan.steps), "+ Add a step", "Add a step at the end")
    return tag("div", "buttons", button, _REFUSED, data_row=True)


def _button(plan: PlanSpec, op: str, place: int, label: str, title: str) -> Html:
    about = {"data_op": op, "data_place": str(place), "data_key": f"{DRAFT}:{plan.id}:{op}:{place}"}
    look = "button quiet-button"
    return tag(
        "button", look, label, type="button", title=title, aria_label=title, data_do=DRAFT, data_id=plan.id or "", **about
    )


_ASKED_ABOUT: dict[Reach, str] = {
    "shown": "You will not be asked again about {}, unless one of your rules asks or denies.",
    "filled": "You will be asked as usual about {}: its call is known only when the plan runs.",
    "executor": "You will be asked as usual about the calls that agents choose in {}.",
}
"""The questions that can follow an approval, by the reach of a step."""


def _reach(run: Run, plan: PlanSpec, reach: Sequence[Reach]) -> Html:
    """Return the effects that the plan may have if approved now."""
    lines = ["Approve runs the plan once, as shown here."]
    for kind, note in _ASKED_ABOUT.items():
        numbers = [str(step.number or position) for position, step in enumerate(plan.steps, 1) if reach[position - 1] == kind]
        if numbers:
            lines.append(note.format(f"step{'s' * (len(numbers) > 1)} {', '.join(numbers)}"))
    models = sum(kind in ("executor", "reply") for kind in reach)
    cost = (
        f"A model works on {pluralize(models, 'step')}, at a cost not known in advance."
        if models
        else "The plan calls no model."
    )
    return tag("div", "draft-reach", *[tag("div", "", line) for line in (*lines, f"{cost} {_remaining_budget(run)}")])


def _remaining_budget(run: Run) -> str:
    """Return the remaining budget of the run."""
    budget, spent = amount(run.settings.get("budget")), run.cost
    so_far = "an unknown amount" if spent is None else dollars(spent)
    if budget is None:
        return f"No budget is set; {so_far} spent so far."
    if spent is None:
        return f"An unknown part of the budget of {dollars(budget)} is left."
    return f"{dollars(max(0.0, budget - spent))} of the budget of {dollars(budget)} is left."


def _draft_outcome(asked: AskedQuestion) -> str:
    """Return the outcome of the draft."""
    if asked.outcome == "declined":
        return "You rejected it."
    if asked.outcome != "answered":
        return answer_told(asked)
    choice = decision(asked.answer)
    if choice.approved:
        return "You approved it." if asked.by == "person" else "Your function approved it."
    return f"You rejected it: “{choice.reason}”" if choice.reason else "You declined it."
