"""``agentnb undo``: restores the files that a run changed."""

from __future__ import annotations

from argparse import Namespace

from agentnb.cli.command import RUN, Command
from agentnb.display.lists.undo_text import undo_text
from agentnb.rerun.undo.undoing import undo_run
from agentnb.session.recovery import place_of


def undo(args: Namespace) -> str:
    """Restore the files that a run changed with write_file and edit_file, unless they have changed since."""
    store, name = place_of(args.run)
    return undo_text(undo_run(store, store.find(name))) + "\n"


UNDO = Command(
    undo,
    (RUN,),
    "agentnb undo 1507efae80",
)
