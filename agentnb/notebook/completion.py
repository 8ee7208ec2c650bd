"""Tab completion in ``%%agent`` and ``%agent`` lines: options, models, tools, commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher
from IPython.core.interactiveshell import InteractiveShell

from agentnb.agent.guidance import BUILT_IN, GuidanceSet
from agentnb.agent.policies.named import NAMED
from agentnb.models.registry import is_model
from agentnb.models.registry import names as model_names
from agentnb.notebook.answer_command import DECLINE, offered
from agentnb.notebook.commands import COMMANDS
from agentnb.notebook.history_command import KINDS
from agentnb.notebook.key_command import OPTIONS, names_to_offer
from agentnb.notebook.names import tool_names
from agentnb.notebook.todo_command import CHANGES
from agentnb.session.session import Session


def matcher(
    shell: InteractiveShell, session: Session, options: Iterable[str]
) -> Callable[[CompletionContext], SimpleMatcherResult]:
    """What IPython's completer asks. Everything outside our lines is left to the others."""
    known = sorted(options)

    @context_matcher()
    def agentnb_matcher(context: CompletionContext) -> SimpleMatcherResult:
        before = context.full_text.split("\n")[context.cursor_line][: context.cursor_position]
        words = before.split(" ")
        fragment = words[-1]
        if len(words) > 1 and words[0] == "%%agent" and context.cursor_line == 0:
            found = _cell_words(words[1:-1], known, session, shell.user_ns)
        elif len(words) > 1 and words[0] == "%agent":
            found = _line_words(words[1:-1], session, shell.user_ns)
        else:
            return {"completions": [], "suppress": False}
        completions = [SimpleCompletion(word, type="option") for word in found if word.startswith(fragment)]
        return {"completions": completions, "matched_fragment": fragment, "suppress": bool(completions)}

    return agentnb_matcher  # type: ignore[no-any-return]  # the decorator is untyped


def _cell_words(before: list[str], options: list[str], session: Session, variables: dict[str, Any]) -> list[str]:
    option = next((word for word in reversed(before) if word.startswith("-")), "")
    if option in ("-m", "--model") and before[-1] == option:
        return model_names() + [name for name, value in variables.items() if is_model(value) and not name.startswith("_")]
    if option in ("-g", "--guidance") and before[-1] == option:
        own = [name for name, value in variables.items() if isinstance(value, GuidanceSet) and not name.startswith("_")]
        return [*BUILT_IN, *session.sets, *own]
    if option in ("-p", "--policy") and before[-1] == option:
        return list(NAMED)
    if option in ("-t", "--tools"):
        return [name for name in tool_names(variables) if name not in before] + options
    return options


def _line_words(before: list[str], session: Session, variables: dict[str, Any]) -> list[str]:
    if not before:
        return list(COMMANDS)
    after: dict[str, Callable[[], list[str]]] = {
        "tools": lambda: tool_names(variables),
        "guidance": lambda: [*BUILT_IN, *session.sets],
        "todos": lambda: ["add", *CHANGES],
        "key": lambda: [*OPTIONS] if len(before) > 1 else names_to_offer(),
        "history": lambda: list(KINDS),
        "answer": lambda: [DECLINE, *offered(session)],
        "load": lambda: session.store.ids()[::-1],
        "defaults": lambda: [f"{key}=" for key in session.defaults],
    }
    return after[before[0]]() if before[0] in after else []
