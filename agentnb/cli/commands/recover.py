"""``agentnb recover``: resumes a run whose process died."""

from __future__ import annotations

from argparse import Namespace

from agentnb.cli.command import RUN, Command, Outcome
from agentnb.cli.resumed_runs import resume
from agentnb.cli.workflow_options import RESUME_OPTIONS
from agentnb.session.recovery import place_of


def recover(args: Namespace) -> Outcome:
    """Resume a run whose process died, a workflow at its first unfinished step, and run it to its end."""
    store, name = place_of(args.run)
    return resume(store.load(store.find(name)), store, args)


RECOVER = Command(
    recover,
    (RUN, *RESUME_OPTIONS),
    "agentnb recover 1507efae80\nagentnb recover 1507efae80 --tools my_tools:fetch\n\n"
    "exit codes: as those of agentnb exec; 4 if it waits for a person: the last line is a command that answers",
)
