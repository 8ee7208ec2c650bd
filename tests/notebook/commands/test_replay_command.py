"""``%replay``: a recorded run under other guidance, shown and assigned to a variable."""

from __future__ import annotations

from typing import Any

from agentnb import replay
from agentnb.display.lists.replay_view import replay_text

FINDER = """
from agentnb.detect import Finding
class Finder:
    def take(self, event, run):
        return [Finding("seen", "loop", 0, 0)] if type(event).__name__ == "ModelReplied" else []
"""


def test_replay_shows_both_records_and_is_kept_in_a_variable(kernel: Any) -> None:
    done = kernel.run("%replay complex-fails --workflow-mode -o found")
    assert done.status == "ok", done.error
    assert done.result["text/plain"] == replay_text(replay("complex-fails", workflow_mode=True))
    assert "would be" in done.result["text/html"]
    assert kernel.value("found.caught_at") == "4"


def test_replay_accepts_variables_sets_detectors_and_the_last_run(kernel: Any) -> None:
    kernel.run("from agentnb import load_trace\nrecorded = load_trace('simple-fail')")
    kernel.run("%%guidance brief\nCall a tool.")
    assert kernel.run("%replay recorded -g brief -p minimal").status == "ok"
    assert kernel.value("replayed.variant.sentence") == "guidance brief, policy minimal"
    assert kernel.value("replayed.recorded is recorded") == "True"
    kernel.run("from agentnb.models import ScriptedModel\ntalks = ScriptedModel(['Done.'])")
    kernel.run("%%agent -m talks\nhi")
    assert kernel.run("%replay").status == "ok"
    assert kernel.value("replayed.recorded.id == run.id") == "True"
    kernel.run(FINDER)
    assert kernel.run("%replay healthy -d Finder").status == "ok"
    assert kernel.value("replayed.caught_at") == "1"
