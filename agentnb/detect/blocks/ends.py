"""Ends of runs: an empty reply in the middle of work, and a claim that the run's own record contradicts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from agentnb.core.log.events import AnyEvent, RunFinished, TodosChanged
from agentnb.core.messages import Message
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.rounds import ASKED_FOR_TOOLS, CallRecord, WorkflowRound, is_empty_answer
from agentnb.core.todos import has_open, open_todos
from agentnb.detect.blocks.rounds import NOTHING, RoundDetector
from agentnb.detect.detector import Finding
from agentnb.detect.similarity import both_ends
from agentnb.detect.tool_failures import is_failure

OVER = frozenset({"completed", "unknown"})
"""Status of runs that ended on their own account; traces of many products do not say how a run ended."""
MAX_READ = 4_000
"""Maximum characters of a last reply that are read, half of them at the end."""
_CLAIM = re.compile(
    r"\bsuccessful(ly)?\b|\ball (done|set|tests pass(ed)?)\b|\btask complete(d)?\b"
    r"|(\b(is|are|was|were|been|have|now|and)|'ve) ((now|all|fully|already|been) ){0,2}"
    r"(complete(d)?|done|finished|fixed|resolved|solved|implemented|created|added|updated|installed|working|passing)\b"
    r"|^\W*(done|completed|finished|fixed|implemented|created|added|updated)\b",
    re.IGNORECASE | re.MULTILINE,
)
"""Words of a reply that says that the work is done."""
_ADMISSION = re.compile(
    r"\b(could ?n[o'\u2019]t|could not|can ?not|can['\u2019]t|unable|unfortunately|fail\w*|error\w*|still|remain\w*|incomplete"
    r"|partial\w*|blocked|un(tested|verified))\b"
    r"|(\bnot|n['\u2019]t)( \w+){0,2} (able|add\w*|appl\w*|compil\w*|complet\w*|creat\w*|done|finish\w*|fix\w*|found|possible"
    r"|implement\w*|install\w*|pass\w*|resolv\w*|run|support\w*|test\w*|updat\w*|verif\w*|work\w*)\b"
    r"|\?\s*$",
    re.IGNORECASE,
)
"""Words of a reply that admits that something is missing, or asks: it is no claim, whatever else it says."""
_EXIT_CODE = re.compile(r"exit (code|status) \d+|^\[.*$", re.IGNORECASE | re.MULTILINE)
"""An exit code, and a line about the result in brackets."""


class EndDetector(RoundDetector):
    """Looks at a run when it is over. What the person says begins the work anew."""

    family = "end"

    def __init__(self) -> None:
        self._has_listed = False
        """Whether the model changed the todo list since the person last spoke."""

    def take(self, event: AnyEvent, run: RunFacts) -> Iterable[Finding]:
        """Take in an event."""
        kind = type(event)
        if kind is TodosChanged:
            self._has_listed = self._has_listed or event.by == "model"  # type: ignore[union-attr]  # the type says it, not mypy
        elif kind is RunFinished and run.rounds and run.status in OVER:
            return self.ended(run.last_round, run)
        return super().take(event, run)

    def spoke(self, message: Message) -> None:
        """Forget the work before."""
        self._has_listed = False

    def ended(self, last: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Return what is found now that the run is over. ``last``: its last round."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it finds: write its ended")

    def has_open_todos(self, run: RunFacts) -> bool:
        """Return whether the model left todos open that it listed since the person last spoke."""
        return self._has_listed and has_open(run.todos)


class EmptyAnswer(EndDetector):
    """The last reply of a run is empty, although a call or an open todo was the last thing before it.

    A reply without text and calls that has thoughts alone is empty. After an answer in words it is no finding, unless todos are
    open; nor is a reply that announced calls, which the trace has lost.
    """

    rule = "empty_answer"

    def __init__(self) -> None:
        super().__init__()
        self._is_working = False

    def spoke(self, message: Message) -> None:
        """Forget the work before."""
        super().spoke(message)
        self._is_working = False

    def finished(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Note whether a round called a tool or answered in words; an empty one did neither."""
        if one.records:
            self._is_working = True
        elif one.text.strip():
            self._is_working = False
        return NOTHING

    def ended(self, last: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Look at the last reply."""
        has_open_todos = self.has_open_todos(run)
        if not is_empty_answer(last) or last.stop_reason in ASKED_FOR_TOOLS or not (self._is_working or has_open_todos):
            return NOTHING
        open_note = f", and {len(open_todos(run.todos))} of {len(run.todos)} todos were open" if has_open_todos else ""
        return self.found(
            last.index, last.index, "notice", f"The run ended with an empty reply in the middle of work{open_note}"
        )


class ClaimAgainstRecord(EndDetector):
    """The last reply says in words that the work is done, and the record of the run says otherwise.

    The record does so by a recorded outcome that is a failure, by todos that the model listed and left open, or by last calls
    that all failed and were not followed by another. A reply that admits anything, or asks, is no claim.
    """

    rule = "claim_against_record"

    def __init__(self) -> None:
        super().__init__()
        self._worked: WorkflowRound | None = None
        """The last round that called a work tool since the person last spoke."""

    def spoke(self, message: Message) -> None:
        """Forget the work before."""
        super().spoke(message)
        self._worked = None

    def finished(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Note a round that called a work tool."""
        for record in one.records:
            if record.role == "work":
                self._worked = one
                break
        return NOTHING

    def ended(self, last: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Hold the last reply against the record."""
        if last.records or not claims_success(last):
            return NOTHING
        contradictions = [*self._record(run)]
        if not contradictions:
            return NOTHING
        sentence = f"The last reply says that the work is done, but {' and '.join(contradictions)}"
        return self.found(last.index, last.index, "notice", sentence, last.text[:500])

    def _record(self, run: RunFacts) -> Iterator[str]:
        if run.outcome == "failed":
            yield "the outcome is failed"
        if self.has_open_todos(run):
            yield f"{len(open_todos(run.todos))} of {len(run.todos)} todos are open"
        work = [record for record in self._worked.records if record.is_work] if self._worked is not None else []
        if work and all(_says_failed(record) for record in work):
            yield f"the last call ({work[-1].call.name}) failed"


def claims_success(one: WorkflowRound) -> bool:
    """Return whether a reply says that the work is done, by its marker or in English words, and admits nothing."""
    text = both_ends(one.text, MAX_READ, between="\n")
    return ("complete" in one.signals or bool(_CLAIM.search(text))) and not _ADMISSION.search(text.rstrip())


def _says_failed(record: CallRecord) -> bool:
    """Return whether a call failed and says why: a bare exit code may mean that nothing was found, such as by grep."""
    return is_failure(record) and record.result is not None and bool(_EXIT_CODE.sub("", record.result.text).strip())
