"""All errors that agentnb raises for a person to read.

    AgentnbError                  a problem the person can fix, with its location and the next command
    ├── SettingsError               a setting, option or command has no usable value
    │   ├── UnknownModel            no such provider or persona
    │   ├── UnknownTool             no tool with that name
    │   ├── InvalidTool             a function that cannot be offered to a model
    │   ├── NestedTooDeep           a run would be nested too deeply in other runs
    │   ├── MissingKey              the provider needs a key that is not set
    │   ├── UrlNotAllowed           a file or log names destinations that are not allowed; see ``.destinations``
    │   ├── InterpolationError      ``{{ name }}`` in a cell cannot be resolved
    │   ├── ExpressionError         an expression, such as ``${ name }``, is invalid or has no value
    │   ├── WorkflowProblems        a workflow is invalid; ``.problems`` lists all problems
    │   ├── ExperimentProblems      an experiment is invalid; ``.problems`` lists all problems
    │   └── NotAvailable            a documented name that is not available in this version yet
    ├── ModelError                  the model did not answer
    │   ├── ScriptEnded             a scripted model has no replies left
    │   ├── ReplayDiverged          a request to a recorded model is not in the record
    │   ├── KeyRefused              the provider rejects the key, in general or for this model
    │   ├── RequestRefused          the provider refuses the request, and would refuse it again
    │   │   └── ContextOverflow     the conversation is too long for the model
    │   ├── RateLimited             too many requests, even after retries
    │   ├── ProviderTrouble         the provider or the connection fails, even after retries
    │   │   └── ProviderTimedOut    no response in time
    │   └── BrokenReply             the response is not a reply
    ├── NotAnswered                 a tool's question to the person has no answer
    │   ├── Declined                the person declined to answer
    │   │   └── QuestionCancelled   the person closed the question without deciding
    │   └── NobodyToAsk             there is no person to ask
    ├── ServerFailed                an MCP server could not be started or reached
    ├── ToolFailed                  a tool that another tool called failed, or was not allowed to run
    ├── StoreError                  a run log cannot be written or found
    ├── TraceError                  a file is not a run log that this version can read
    ├── StepFailed                  a step of a run failed
    ├── WorkflowError               a workflow failed; ``.run`` is the run, with the outputs of its steps so far
    ├── ExpectationFailed           a run does not meet expectations; ``.failed`` lists them, ``.run`` is the run
    ├── RunLimited                  a run reached a limit that raises; ``.run`` is the run
    └── RunFailed                   a run ended with status ``failed``; ``.run`` is the run

A tool's errors are not exceptions: they are tool results that the model reads. Any other exception is a bug.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn, Protocol, TypeVar

from agentnb.advice import PYTHON, Advised, AnyAdvice, Commands, NameOne, as_advice, in_python, in_words, sentences

T = TypeVar("T")
MAX_PROBLEMS = 50
"""Maximum number of workflow problems in an error's text; ``.problems`` holds all."""


class AnyRun(Protocol):
    """The `Run` in which an error occurred."""

    @property
    def id(self) -> str:
        """The name of the run, and of its log."""

    @property
    def text(self) -> str:
        """The model's last answer."""


RENDERER = "_render_traceback_"
"""Method that IPython calls on an exception to get its traceback."""


class AgentnbError(Exception):
    """A problem that the person can fix.

    ``what`` describes the problem and its location; ``advice`` is the next command, as values, and ``hint`` the same as text
    for Python. ``run`` is the run in which it occurred, if any.
    """

    redact: ClassVar[Callable[[T], T]] = staticmethod(lambda texts: texts)
    """Masks known keys in every new error; set by `core.redaction`, a higher layer."""

    def __init__(self, what: str, advice: Advised = "", *, run: AnyRun | None = None) -> None:
        self.replace(*AgentnbError.redact((what, as_advice(advice))))
        self.run = run

    def replace(self, what: str, advice: tuple[AnyAdvice, ...]) -> None:
        """Replace the problem and the advice."""
        self.what = what
        self.advice = advice
        self.args = (what, advice)

    @property
    def hint(self) -> str:
        """The next command, worded for Python."""
        return in_python(self.advice)

    def text_for(self, commands: Commands) -> str:
        """Return the problem and its advice, worded for a surface."""
        return sentences(self.what, in_words(self.advice, commands))

    def __str__(self) -> str:
        return self.text_for(PYTHON)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.what, self.advice))


class SettingsError(AgentnbError, ValueError):
    """A setting, option or command has no usable value."""


class UnknownModel(SettingsError):
    """No such provider or persona."""


class UnknownTool(SettingsError):
    """No tool with that name."""


class InvalidTool(SettingsError):
    """A function that cannot be offered to a model."""


class NestedTooDeep(SettingsError):
    """Runs would be nested too deeply, each started by a tool of the previous one. The model gets an error."""


class MissingKey(SettingsError):
    """The provider needs a key that is not set."""


class UrlNotAllowed(SettingsError):
    """A file, log or trace names destinations of calls and keys that the person has not allowed.

    ``destinations`` lists each `agentnb.models.destinations.destination.Destination` that is not allowed yet.
    """

    destinations: tuple[Any, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return (*super().__reduce__(), {"destinations": self.destinations})


class InterpolationError(SettingsError):
    """``{{ name }}`` in a cell cannot be resolved."""


class ExpressionError(SettingsError):
    """An expression, such as ``${ name }``, is invalid or has no value. ``why`` is ``what`` without the expression."""

    why: str = ""


class AnyProblem(Protocol):
    """A `Problem` in a file, with its description and position."""

    @property
    def line(self) -> int:
        """Its line, from 1."""

    @property
    def message(self) -> str:
        """The description."""

    def text_for(self, commands: Commands) -> str:
        """Return the problem, worded for a surface."""


class WorkflowProblems(SettingsError):
    """A workflow is invalid. ``problems`` lists all problems, each with its file and line."""

    problems: tuple[AnyProblem, ...] = ()

    def text_for(self, commands: Commands) -> str:
        """Return the problems, worded for a surface, one per line, up to `MAX_PROBLEMS`."""
        return AgentnbError.redact(problem_lines(self.problems, commands)) if self.problems else super().text_for(commands)

    def __reduce__(self) -> tuple[Any, ...]:
        return (*super().__reduce__(), {"problems": self.problems})


class ExperimentProblems(SettingsError):
    """An experiment is invalid. ``problems`` lists all problems, each as a sentence."""

    problems: tuple[str, ...] = ()

    @classmethod
    def of(cls, problems: Sequence[str]) -> ExperimentProblems:
        """Return the error for these problems, one per line."""
        several = len(problems) > 1
        head = [f"The experiment has {len(problems)} problems:"] if several else []
        error = cls("\n".join([*head, *_first_lines([f"- {problem}" if several else problem for problem in problems])]))
        error.problems = tuple(problems)
        return error

    def __reduce__(self) -> tuple[Any, ...]:
        return (*super().__reduce__(), {"problems": self.problems})


class NotAvailable(SettingsError, ImportError):
    """A documented name that is not available in this version yet."""


class ModelError(AgentnbError, RuntimeError):
    """The model did not answer."""


class ScriptEnded(ModelError):
    """A scripted model has no replies left for this request."""


class ReplayDiverged(ModelError):
    """A request to a recorded model is not in the record. The error names the first difference."""


class KeyRefused(ModelError):
    """The provider rejects the key, in general or for this model."""


class RequestRefused(ModelError):
    """The provider refuses the request and would refuse it again."""


class ContextOverflow(RequestRefused):
    """The conversation is too long for the model."""


class RateLimited(ModelError):
    """Too many requests or tokens, even after retries; or the account's quota is exhausted."""


class ProviderTrouble(ModelError):
    """The provider or the connection to it fails, even after retries."""


class ProviderTimedOut(ProviderTrouble):
    """The provider does not respond in time, even after retries."""


class BrokenReply(ModelError):
    """The response is not a reply of the kind that was requested."""


class ServerFailed(AgentnbError, RuntimeError):
    """An MCP server could not be started or reached."""


class NotAnswered(AgentnbError):
    """A tool's question to the person has no answer. If the tool does not catch this, the model gets the error."""


class Declined(NotAnswered):
    """The person declined to answer."""


class QuestionCancelled(Declined):
    """The person closed the question without deciding. Also caught as `Declined`."""


class NobodyToAsk(NotAnswered):
    """There is no person to ask."""


class ToolFailed(AgentnbError, RuntimeError):
    """A tool called by another tool failed, or was not allowed to run; see ``error_code``."""

    error_code: str | None = None


class StoreError(AgentnbError, OSError):
    """A run log cannot be written or found."""


class TraceError(AgentnbError, ValueError):
    """A file is not a run log that this version can read."""


class StepFailed(AgentnbError, RuntimeError):
    """A step of a run failed; the underlying error is the cause."""


class WorkflowError(AgentnbError, RuntimeError):
    """A workflow failed; ``.run`` holds its work so far, such as ``error.run.step_context``.

    ``others`` are the records of further failed steps, in order: ``error.others[0].error``.
    """

    others: tuple[Any, ...] = ()


class ExpectationFailed(AgentnbError, AssertionError):
    """A run does not meet expectations. ``failed`` holds the failed expectations, by run id."""

    failed: Mapping[str, tuple[Any, ...]] = MappingProxyType({})

    def text_for(self, commands: Commands) -> str:
        """Return the failed expectations, one per line, followed by advice."""
        hint = in_words(self.advice, commands)
        return f"{self.what}\n{hint}" if "\n" in self.what and hint else sentences(self.what, hint)

    def _render_traceback_(self) -> list[str]:
        """Return the failed expectations for IPython, without a traceback: the line with the expectation is in the cell
        above.
        """
        return [f"{type(self).__name__}: {self}"]


class RunLimited(AgentnbError, RuntimeError):
    """A run reached a limit with ``on_limit="raise"``; ``.run`` holds its work so far."""


class RunFailed(AgentnbError, RuntimeError):
    """A run ended with status ``failed``; ``.run`` holds its work so far."""


def problem_lines(problems: Sequence[AnyProblem], commands: Commands) -> str:
    """Return the first problems, worded for a surface, one per line, and the number of those left out."""
    return "\n".join(_first_lines([problem.text_for(commands) for problem in problems]))


def _first_lines(problems: Sequence[str]) -> list[str]:
    more = [f"... and {len(problems) - MAX_PROBLEMS} more"] if len(problems) > MAX_PROBLEMS else []
    return [*problems[:MAX_PROBLEMS], *more]


LIKE = 0.6
"""Minimum similarity for suggesting a name, where 1 means identical."""
MAX_KNOWN = 8
"""Maximum number of known names in advice if no name is similar."""


def suggest_similar(name: str, known: Iterable[str], most: int = 3) -> tuple[NameOne, ...]:
    """Return advice with the known names most similar to ``name``; empty if no name is similar.

    Ignores leading hyphens.
    """
    advice = suggest_names(name, known, most)
    return advice if advice and advice[0].similar else ()


def suggest_names(name: str, known: Iterable[str], most: int = 3) -> tuple[NameOne, ...]:
    """Return advice with the known names, starting with those most similar to ``name``; empty if no names are known."""
    names = [*known]
    bare = {candidate.lstrip("-"): candidate for candidate in names}
    close = get_close_matches(name.lstrip("-"), bare, n=most, cutoff=LIKE)
    advice = NameOne(tuple([bare[candidate] for candidate in close]), tuple(names[:MAX_KNOWN]), max(len(names) - MAX_KNOWN, 0))
    return (advice,) if names else ()


def module_getattr(module: str, known: Iterable[str]) -> Callable[[str], NoReturn]:
    """Return a ``__getattr__`` for a module that suggests similar public names for a missing one."""

    def refuse(name: str) -> NoReturn:
        hint = "" if name.startswith("_") else in_python(suggest_similar(name, known))
        raise AttributeError(sentences(f"module {module!r} has no attribute {name!r}", hint))

    return refuse


def with_names(what: str, name: str, known: Iterable[str]) -> str:
    """Return a text for a model: the problem with a name, and the names to use instead."""
    return sentences(what, in_python(suggest_names(name, known)))
