"""``%replay``: replays a recorded run under other guidance, or another policy or limit."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from agentnb.detect.presets import names as presets
from agentnb.detect.run import Run
from agentnb.errors import SettingsError, StoreError, suggest_names
from agentnb.examples import FILES, find
from agentnb.guidance import BUILT_IN
from agentnb.interchange.files import load_trace
from agentnb.notebook.commands.guidance_command import find_guidance
from agentnb.notebook.variable_names import check_variable, run_names, unquote
from agentnb.policies.policy_sets import NAMED
from agentnb.rerun.replay import replay
from agentnb.rerun.replay_result import Replay
from agentnb.session.session import Session


def replay_named(session: Session, variables: dict[str, Any], options: Any) -> Replay:
    """Replay the named run, store the replay in a variable, and return it for display."""
    out = check_variable(options.out)
    run = _run(unquote(options.name), session, variables)
    replayed = replay(
        run,
        guidance=find_guidance(options.guidance, session, variables) if options.guidance else None,
        policy=options.policy or None,
        detect=variables.get(options.detect, options.detect) or None,
        limits={} if options.max_rounds is None else {"max_rounds": options.max_rounds},
        workflow_mode=True if options.workflow_mode else None,
    )
    variables[out] = replayed
    return replayed


def _run(name: str, session: Session, variables: Mapping[str, Any]) -> Run:
    """Return the run in a variable, an example or a file, or with this id; the most recent run if no name is given."""
    value = variables.get(name)
    if isinstance(value, Run):
        return value
    if not name:
        return session.last_run()
    if find(name) or Path(name).expanduser().exists():
        return load_trace(name)
    try:
        return session.store.load(name)
    except StoreError as error:
        hint = suggest_names(name, [*FILES, *run_names(variables)])
        raise SettingsError(f"There is no run, file or example {name!r}", hint) from error


def replay_words_after(before: list[str], fragment: str, session: Session, variables: Mapping[str, Any]) -> list[str]:
    """Return completions for ``%replay``: runs, examples and options, or the values of an option."""
    choices = {
        ("-g", "--guidance"): [*BUILT_IN, *session.sets],
        ("-p", "--policy"): [*NAMED],
        ("-d", "--detect"): [*presets()],
        ("-o", "--out", "--max-rounds"): [],
    }
    for options, words in choices.items():
        if before and before[-1] in options:
            return words
    if fragment.startswith("-"):
        return [*chain.from_iterable(choices), "--workflow-mode"]
    return [*run_names(variables), *FILES]
