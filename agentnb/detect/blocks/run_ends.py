"""Ends of runs: an empty reply in the middle of work, and a success claim that the run's record contradicts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from agentnb.core.log.events import AnyEvent, RunFinished, TodosChanged
from agentnb.core.messages import Message
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.rounds import ASKED_FOR_TOOLS, CallRecord, WorkflowRound, is_empty_answer
from agentnb.core.todos import has_open, open_todos
from agentnb.detect.answer_similarity import both_ends
from agentnb.detect.blocks.detector_bases import NOTHING, RoundDetector
from agentnb.detect.detector import Finding
from agentnb.detect.tool_failures import is_failure

OVER = frozenset({"completed", "unknown"})
"""Statuses of runs that ended of their own accord; traces of many products do not record how a run ended."""
MAX_READ = 4_000
"""Maximum number of characters read from a last reply, half of them at the end."""
_CLAIM = re.compile(
    r"\bsuccessful(ly)?\b|\ball (done|set|tests pass(ed)?)\b|\btask complete(d)?\b"
    r"|(\b(is|are|was|were|been|have|now|and)|'ve) ((now|all|fully|already|been) ){0,2}"
    r"(complete(d)?|done|finished|fixed|resolved|solved|implemented|created|added|updated|installed|working|passing)\b"
    r"|^\W*(done|completed|finished|fixed|implemented|created|added|updated)\b",
    re.IGNORECASE | re.MULTILINE,
)
"""Words that claim success."""
_ADMISSION = re.compile(
    r"\b(could ?n[o'\u2019]t|could not|can ?not|can['\u2019]t|unable|unfortunately|fail\w*|error\w*|still|remain\w*|incomplete"
    r"|partial\w*|blocked|un(tested|verified))\b"
    r"|(\bnot|n['\u2019]t)( \w+){0,2} (able|add\w*|appl\w*|compil\w*|complet\w*|creat\w*|done|finish\w*|fix\w*|found|possible"
    r"|implement\w*|install\w*|pass\w*|resolv\w*|run|support\w*|test\w*|updat\w*|verif\w*|work\w*)\b"
    r"|\?\s*$",
    re.IGNORECASE,
)
"""Words that admit a gap or ask a question; they outweigh any claim."""
_EXIT_CODE = re.compile(r"exit (code|status) \d+|^\[.*$", re.IGNORECASE | re.MULTILINE)
"""An exit code, or a bracketed line about the result."""


class EndDetector(RoundDetector):
    """Base of detectors that examine a finished run. A message from the person starts new work."""

    family = "end"

    def __init__(self) -> None:
        self._has_listed = False
        """True if the model changed the todo list since the person last spoke."""

    def take(self, event: AnyEvent, run: RunFacts) -> Iterable[Finding]:
        """Process an event."""
        kind = type(event)
        if kind is TodosChanged:
            self._has_listed = self._has_listed or event.by == "model"  # type: ignore[union-attr]  # the type says it, not mypy
        elif kind is RunFinished and run.rounds and run.status in OVER:
            return self.check_end(run.last_round, run)
        return super().take(event, run)

    def spoke(self, message: Message) -> None:
        """Forget earlier work."""
        self._has_listed = False

    def check_end(self, last: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Return findings about the finished run. ``last``: its last round."""
        raise NotImplementedError(f"{type(self).__name__} must implement check_end")

    def has_open_todos(self, run: RunFacts) -> bool:
        """True if todos that the model listed since the person last spoke are still open."""
        return self._has_listed and has_open(run.todos)


class EmptyAnswer(EndDetector):
    """An empty last reply although the run has made a call or has an open todo.

    A reply with only thinking counts as empty. Not reported after a text answer, unless todos are open, nor for a reply that
    announced calls that the trace lacks.
    """

    rule = "empty_answer"

    def __init__(self) -> None:
        super().__init__()
        self._is_working = False

    def spoke(self, message: Message) -> None:
        """Forget earlier work."""
        super().spoke(message)
        self._is_working = False

    def check_round(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Record whether a round called a tool or answered with text; an empty round changes nothing."""
        if one.records:
            self._is_working = True
        elif one.text.strip():
            self._is_working = False
        return NOTHING

    def check_end(self, last: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Examine the final reply."""
        has_open_todos = self.has_open_todos(run)
        if not is_empty_answer(last) or last.stop_reason in ASKED_FOR_TOOLS or not (self._is_working or has_open_todos):
            return NOTHING
        open_note = f", and {len(open_todos(run.todos))} of {len(run.todos)} todos were open" if has_open_todos else ""
        return self.finding(
            last.index, last.index, "notice", f"The run ended with an empty reply in the middle of work{open_note}"
        )


class ClaimAgainstRecord(EndDetector):
    """A final reply that claims success, contradicted by the run's record.

    Contradictions: a recorded failed outcome, todos that the model listed and left open, or a last round of work in which every
    call failed. A reply that admits a gap or asks a question is not a claim.
    """

    rule = "claim_against_record"

    def __init__(self) -> None:
        super().__init__()
        self._worked: WorkflowRound | None = None
        """The last round that called a work tool since the person last spoke."""

    def spoke(self, message: Message) -> None:
        """Forget earlier work."""
        super().spoke(message)
        self._worked = None

    def check_round(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Record a round that called a work tool."""
        for record in one.records:
            if record.role == "work":
                self._worked = one
                break
        return NOTHING

    def check_end(self, last: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Compare the final reply with the record."""
        if last.records or not claims_success(last):
            return NOTHING
        contradictions = [*self._record(run)]
        if not contradictions:
            return NOTHING
        sentence = f"The last reply says that the work is done, but {' and '.join(contradictions)}"
        return self.finding(last.index, last.index, "notice", sentence, last.text[:500])

    def _record(self, run: RunFacts) -> Iterator[str]:
        if run.outcome == "failed":
            yield "the outcome is failed"
        if self.has_open_todos(run):
            yield f"{len(open_todos(run.todos))} of {len(run.todos)} todos are open"
        work = [record for record in self._worked.records if record.is_work] if self._worked is not None else []
        if work and all(_says_failed(record) for record in work):
            yield f"the last call ({work[-1].call.name}) failed"


def claims_success(one: WorkflowRound) -> bool:
    """True if a reply claims success, by its marker or in English words, and admits no gap."""
    text = both_ends(one.text, MAX_READ, between="\n")
    return ("complete" in one.signals or bool(_CLAIM.search(text))) and not _ADMISSION.search(text.rstrip())


def _says_failed(record: CallRecord) -> bool:
    """True if a call failed with an explanation. A bare exit code may merely mean that nothing matched, as with grep."""
    return is_failure(record) and record.result is not None and bool(_EXIT_CODE.sub("", record.result.text).strip())
