"""The wording of questions to the person and of their answers, for text and HTML alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentnb.advice import AnswerRun
from agentnb.core.questions import AskedQuestion, answer_form, choice_in_words
from agentnb.core.run.approvals import ASK, AUTO, NEVER, READ_ONLY, RULES
from agentnb.detect.run import Run
from agentnb.display.texts.judged_call import call_text, question_text
from agentnb.display.texts.labels import clean, cut, first_line
from agentnb.display.texts.notebook_commands import in_notebook
from agentnb.policies.permissions.permissions import Permissions

ASKS = {
    "approval": "The agent asks for your approval",
    "elicitation": "The agent asks you",
    "plan_review": "The agent asks you to look at its plan",
    "human_step": "This step is yours",
}
"""Titles of open questions, by kind."""
HAD_ASKED = {
    "approval": "It had asked for your approval",
    "elicitation": "It had asked you",
    "plan_review": "It had asked you to look at its plan",
    "human_step": "This step was yours",
}
"""The same for a run that ended with the question open."""
ASKED = {
    "approval": "It asked for your approval",
    "elicitation": "It asked you",
    "plan_review": "It asked you to look at its plan",
    "human_step": "This step was yours",
}
"""The same for questions that are closed."""
MAX_OF_A_CALL = 100_000
"""Characters of the call that a question is about in the text of a run."""
LATER = "Later"
LATER_TITLE = in_notebook((AnswerRun(lead="Close the run until you answer, also after a restart"),))
"""The button that suspends a run, and what it does."""
NO_ANSWER = {
    "declined": "You left it to the agent",
    "withdrawn": "Withdrawn before there was an answer",
}
"""Why a closed question has no answer."""
DECLINED_BY = {"program": "No answer from the function that answers for you", "nobody": "Nobody could answer here"}
"""The same for a question that was declined, but not by the person."""

MODES = {
    RULES: "rules and their defaults decide",
    AUTO: "what only the defaults would ask about runs",
    ASK: "each call of a tool that does more than read is asked about",
    NEVER: "nothing is asked, and what would be asked about is denied",
    READ_ONLY: "only tools that read may run",
}
"""What each approval mode means."""


def question_lines(run: Run) -> list[str]:
    """Return the open questions with their choices; for a run whose process died, what it had asked."""
    asks = "It had asked" if run.status == "interrupted" else "It asks"
    lines = []
    for one in run.waiting:
        lines.append(f"{asks}: {clean(question_text(one))}{_choices(one.schema)}")
        if call := call_text(one):
            lines += ["About this call:", cut(call, MAX_OF_A_CALL)]
    return lines


def closed_question_lines(asked: AskedQuestion, most: int) -> list[str]:
    """Return a question that is closed, and its answer, a line of at most ``most`` characters each; nothing while it is open.

    Two lines, so that no question can pretend to have an answer.
    """
    if asked.outcome == "open":
        return []
    question = f"It asked: {first_line(clean(question_text(asked.question)), most)}{_choices(asked.question.schema)}"
    return [question, first_line(clean(answer_told(asked)), most)]


def answer_told(asked: AskedQuestion) -> str:
    """Return what became of a question: ``You: Vienna``, or why there is no answer; empty while it is open."""
    if asked.outcome == "answered":
        return f"{author(asked)}: {choice_in_words(asked.answer)}"
    if asked.outcome == "declined" and asked.by in DECLINED_BY:
        return DECLINED_BY[asked.by]
    return NO_ANSWER.get(asked.outcome, "")


def author(asked: AskedQuestion) -> str:
    """Return who answered: you, or the function that answers in your place."""
    return "Your function" if asked.by == "program" else "You"


def _choices(schema: dict[str, Any]) -> str:
    listed = ", ".join(map(choice_in_words, answer_form(schema).choices))
    return clean(f" ({first_line(listed, 200)})") if listed else ""


def mode_text(words: str) -> str:
    """Return an approval mode, of a word or several, and what it means."""
    means = "; ".join(MODES.get(word, "") for word in words.split("+"))
    return f"none: {means}" if words == RULES else f"{words}: {means}"


def reach_text(reach: str, run: str = "") -> str:
    """Return how far a grant reaches. ``run``: the id of its run, if that is not the one that is shown."""
    if reach == "session":
        return "in this session, until its kernel ends"
    return f"in run {run} and the runs nested in it" if run else "in this run and the runs nested in it"


def rule_lines(run: Run) -> Iterator[str]:
    """Yield the mode of a run, if it has one, and its rules."""
    permissions = Permissions.logged(run.settings, loosens=True)
    if permissions.mode.held:
        yield f"mode {mode_text(permissions.mode.words)}"
    for layer in permissions.layers:
        if layer.flags is not None:
            yield f"permitted: {', '.join(sorted(layer.flags)) or 'nothing that needs a flag'}"
        for rule in layer.rules:
            yield f"{rule.verdict}: {rule.text}"
