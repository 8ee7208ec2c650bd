"""Pictures of sixteen things that a person sees, light and dark, in a narrow and a wide window: ``make looks``. Look at them as
somebody new: what happened, and what should I do?

Usage: python tests/browser/looks.py FOLDER [NAME ...]
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "support")]

import test_approval_in_lab as approvals  # noqa: E402
import test_browser_of_traces as browsers  # noqa: E402
import test_draft_in_lab as drafts  # noqa: E402
import test_experiment_in_lab as experiments  # noqa: E402
import test_forms_in_lab as forms  # noqa: E402
import test_panel_in_lab as panels  # noqa: E402
from browsing import fresh_page, started  # noqa: E402
from pages import SHOTS, Lab  # noqa: E402
from pictures import CELL, REPLIES, SETUP, until_it_asks, until_it_is_done, until_it_streams, write_story  # noqa: E402
from servers import NOT_NOTEBOOKS, serving  # noqa: E402

OF_JUPYTER = ".Toastify, #jupyterlab-splash { display: none !important }"
"""Its offer of news, and its screen while a theme loads."""
REFUSED = """
from agentnb.models.transport.failure import Refusal, failure
words = "authentication_error", "invalid x-api-key"
refused = failure(Refusal("anthropic", "claude", 401, *words, key_name="ANTHROPIC_API_KEY")).error"""
"""Error of a provider's model for a refused key."""
BASH = """
words = "I did not look: you rejected the command."
model = Slow([ToolCall("bash", {"command": "git status -s src", "timeout": 5}), words])
"""
CODE = """
model = Slow([ToolCall("run_python", {"code": "heavy = sales[sales.units > 40]\\nfor rep in heavy.rep.unique():\\n"
              "    print(rep, heavy[heavy.rep == rep].units.sum())"}), "Done."])
"""
ASKED = approvals.GO.replace("Go.", "Which files in src have I changed?")
TRACES = """from agentnb import ToolCall
from agentnb.core.log.events import Origin
from agentnb.interchange.files import Runs
from agentnb.interchange.conversion.run_writer import RunWriter
def made(order):
    city = ["Lyon", "Porto", "Turin", "Ghent", "Cork"][order % 5]
    writer = RunWriter(Origin("helpdesk", "july.json", str(order), task=f"order {order}"), model="claude-haiku")
    writer.say(f"When does my order {order} arrive in {city}?")
    writer.reply("I look up the order first.", [ToolCall("get_order", {"order": order})])
    writer.result("", f"Order {order}: 2 lamps, parcel P-{order}, sent on 3 July")
    for is_error in [True, False] if order % 4 == 1 else [False]:
        writer.reply("Now I track its parcel.", [ToolCall("track_parcel", {"parcel": f"P-{order}"})])
        answer = "The carrier did not answer within 10 s" if is_error else f"5 July: in the depot of {city}"
        writer.result("", answer, is_error=is_error)
    if order % 7 == 0:
        return writer.finish(None)
    writer.reply(f"Your two lamps are in the depot of {city} and arrive on 6 July.")
    return writer.finish()
"""


class Looks:
    """Takes the pictures; each method leaves the page as it was."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def _take(self, name: str, index: int) -> None:
        """Take the window with this cell at its top."""
        self.lab.activate(0)  # without the bar of the active cell
        self.lab.page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
        self.lab.page.mouse.move(0, 0)  # over nothing
        self.lab.page.add_style_tag(content=OF_JUPYTER)
        self.lab.shots(name, top=self.lab.cell(index))

    def _penguins(self, name: str, replies: str, wait: Callable[[Any], None], options: str = "", before: str = "") -> None:
        lab = self.lab
        lab.share([f"{SETUP}{before}\npenguin_model = model({replies})", CELL.replace("%%agent", f"%%agent{options}")])
        lab.run(0)
        lab.start(1)
        wait(lab.cell(1))
        self._take(name, 1)

    def card_running(self) -> None:
        self._penguins("card-running", REPLIES["running"], until_it_streams)

    def card_waiting(self) -> None:
        self._penguins("card-waiting", REPLIES["waiting"], until_it_asks)

    def done_passed(self) -> None:
        self._penguins("done-passed", REPLIES["done"], until_it_is_done, ' --expect "tool_errors == 0" todos_closed')

    def done_not_checked(self) -> None:
        self._penguins("done-not-checked", REPLIES["done"], until_it_is_done)

    def done_refused(self) -> None:
        index, question = approvals.asked(self.lab, "refused", BASH, ASKED)
        question.get_by_role("button", name="Reject…").click()
        question.get_by_label("Reason, for the model").fill("The other folder")
        question.get_by_role("button", name="Reject", exact=True).click()
        self._ended("done-refused", index)

    def done_plan_rejected(self) -> None:
        index, draft = drafts.drafted(self.lab, drafts.SETUP.replace('"Compared.", "Both are high at 05:10."', '"Then not."'))
        draft.get_by_role("button", name="Reject…").click()
        draft.get_by_label("Reason, for the model").fill("Too many stations")
        draft.get_by_role("button", name="Reject", exact=True).click()
        self._ended("done-plan-rejected", index)

    def done_failed(self) -> None:
        replies, chip = "PLAN, LOAD, COMPARE, refused", ".agentnb-run .agentnb-chip"
        self._penguins("done-failed", replies, lambda cell: cell.locator(chip).wait_for(), before=REFUSED)

    def _ended(self, name: str, index: int) -> None:
        self.lab.cell(index).locator(".agentnb-run > .agentnb-head .agentnb-chip").wait_for()
        self.lab.wait_done(index)
        self._take(name, index)

    def question_command(self) -> None:
        self._take("question-command", approvals.asked(self.lab, "command", BASH, ASKED)[0])

    def question_code(self) -> None:
        go = approvals.GO.replace("bash write_file", "run_python").replace("Go.", "Sum the large sales of each rep.")
        self._take("question-code", approvals.asked(self.lab, "code", CODE, go)[0])

    def question_edit(self) -> None:
        go = approvals.GO.replace("Go.", "Strip the text of a note.")
        self._take("question-edit", approvals.asked(self.lab, "file", approvals.WRITE, go)[0])

    def question_form(self) -> None:
        setup = forms.ASKS.replace("<b>confirmation</b>", "confirmation")
        self._take("question-form", forms.asked(self.lab, setup, forms.GO.replace("Go.", "Book me a room."))[0])

    def draft(self) -> None:
        self._take("draft", drafts.drafted(self.lab)[0])

    def experiment(self) -> None:
        """The experiment, and the comparison of its results."""
        lab = self.lab
        (lab.folder / "rest").unlink(missing_ok=True)
        lab.share([experiments.SETUP, experiments.EXPERIMENT, "compare(results, 'with', 'without')"])
        lab.run_above(1)
        lab.allow("first")
        lab.start(1)
        box = lab.cell(1).locator(".agentnb-exp").first
        box.get_by_text("30 under way").wait_for()
        self._take("experiment", 1)
        lab.allow("rest")
        lab.wait_done(1)
        lab.run(2)
        lab.cell(2).get_by_text("Minimum detectable effect").first.wait_for()
        self._take("comparison", 2)

    def browser(self) -> None:
        browsers.opened(self.lab, TRACES, "found = Runs([*map(made, range(1005, 1235))])\nfound")
        self._take("browser", 2)

    def panel(self) -> None:
        panels.opened(self.lab, panels.OLDER.replace("the older one", "Add up the two bills."))
        panels.runs(self.lab).nth(0).click()
        self._take("panel", 2)


LOOKS = {name: look for name, look in vars(Looks).items() if not name.startswith("_")}


def main(folder: Path, names: list[str]) -> None:
    """Take all pictures, or those of these methods, into the folder."""
    os.environ[SHOTS] = str(folder)
    with (
        tempfile.TemporaryDirectory() as home,
        tempfile.TemporaryDirectory() as specs,
        serving("jupyterlab", Path(home), Path(specs), NOT_NOTEBOOKS) as (url, served),
        started() as browser,
        fresh_page(browser, Lab, url, served) as lab,
    ):
        write_story(served)
        lab.stays = True
        for name in names or LOOKS:
            begun = time.monotonic()
            LOOKS[name](Looks(lab))
            lab.tidy()
            print(f"{name}: {time.monotonic() - begun:.0f} s", flush=True)
    print(f"{len(list(folder.glob('*.png')))} pictures in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
