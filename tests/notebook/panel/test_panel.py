"""The panel in a real kernel, with messages as a browser sends them."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asserted_sentences import Snapshot
from jupyter_client.blocking.client import BlockingKernelClient
from real_kernel import PATIENCE, TOOLS, Kernel, until_ready

import agentnb
from agentnb.errors import SettingsError
from agentnb.notebook.widget_tools import HEARS_WHILE_BUSY

VIEW = "application/vnd.jupyter.widget-view+json"
COUNT = "import ipywidgets.widgets.widget as w, comm; print(len(w._instances), len(comm.get_comm_manager().comms))"
SOON_GIVEN_UP = "from agentnb.notebook.card import view as card_view; card_view.UNSEEN = 0.3"
"""Gives up soon on cards that no page shows."""


class Page:
    """A page with the panel: it learns of widgets from the kernel, over a channel of its own."""

    def __init__(self, kernel: Kernel) -> None:
        self.client = BlockingKernelClient()  # with its own session: two with the same name would get each other's replies
        self.client.load_connection_info(kernel.manager.get_connection_info(session=False))
        self.client.start_channels()
        until_ready(self.client)
        self.states: dict[str, dict[str, Any]] = {}
        self.said: list[dict[str, Any]] = []
        self.counts: list[tuple[int, str]] = []
        """Rows and note of the list after each message to it."""
        self.printed = ""
        self.subshell: str | None = None
        self.count = 0

    def close(self) -> None:
        self.client.stop_channels()

    def show(self, kernel: Kernel) -> dict[str, Any]:
        """Run a cell that shows the panel and return it."""
        cell = kernel.run("import agentnb; agentnb.panel()")
        assert cell.status == "ok", cell.error
        whole = cell.result[VIEW]["model_id"]
        self.until(lambda: whole in self.states and bool(self.state("list")["note"] and self.state("form")["offers"]))
        return cell.result

    def part(self, name: str) -> tuple[str, dict[str, Any]]:
        """Return the model and state of the newest widget of this part."""
        found = [(model, state) for model, state in self.states.items() if state.get("part") == name]
        return found[-1]

    def state(self, name: str) -> dict[str, Any]:
        return self.part(name)[1]

    def tell(self, name: str, **message: Any) -> str:
        """Send a click there and return the number of the message."""
        self.count += 1
        number = f"page:{self.count}"
        content = {"comm_id": self.part(name)[0], "data": {"method": "custom", "content": {**message, "id": number}}}
        sent = self.client.session.msg("comm_msg", content)
        if self.subshell:
            sent["header"]["subshell_id"] = self.subshell
        self.client.shell_channel.send(sent)
        return number

    def ask(self, name: str, **message: Any) -> None:
        """Like `tell`, but wait for the acknowledgement."""
        number = self.tell(name, **message)
        self.until(lambda: any(one.get("id") == number for one in self.said))

    def start(self, prompt: str, *tools: str, model: str = "simulated:disciplined", guidance: str = "matrix") -> None:
        self.ask("form", do="start", prompt=prompt, model=model, tools=list(tools), guidance=guidance)

    def until(self, true: Callable[[], bool]) -> None:
        latest = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < latest, {name: self.state(name) for name in ("form", "list")}
            try:
                self._take(self.client.get_iopub_msg(timeout=0.05))
            except queue.Empty:
                continue

    def until_ended(self, count: int) -> None:
        """Wait until the list has this many runs and all have ended."""
        self.until(lambda: self.rows() == count and ">●<" not in self.state("list")["html"])

    def rows(self) -> int:
        return self.state("list")["html"].count("data-run=")

    @property
    def shown(self) -> str:
        """The content of the area: the page's HTML, or ``card``."""
        children = [
            state["children"] for state in self.states.values() if "agentnb-panel-area" in state.get("_dom_classes", ())
        ]
        if not children[-1]:
            return ""
        state = self.states[children[-1][0].removeprefix("IPY_MODEL_")]
        return str(state["html"]) if state.get("part") == "page" else "card"

    def _take(self, message: dict[str, Any]) -> None:
        kind, content = message["msg_type"], message["content"]
        if kind == "comm_open":
            self.states[content["comm_id"]] = dict(content["data"]["state"])
        elif kind == "stream":
            self.printed += content["text"]
        elif kind == "comm_close":
            self.states.pop(content["comm_id"], None)
        elif kind == "comm_msg" and content["data"].get("method") in ("update", "echo_update"):
            state = self.states[content["comm_id"]]
            state.update(content["data"]["state"])
            if state.get("part") == "list":
                self.counts.append((self.rows(), state["note"]))
        elif kind == "comm_msg" and content["data"].get("method") == "custom":
            self.said.append(content["data"]["content"])


@pytest.fixture
def fresh(tmp_path: Any) -> Iterator[tuple[Kernel, Page]]:
    """Return an unshared kernel and a page."""
    kernel = Kernel(tmp_path)
    assert kernel.run(TOOLS).status == "ok"
    page = Page(kernel)
    yield kernel, page
    page.close()
    kernel.close()


def until_count(kernel: Kernel, count: str) -> None:
    """Wait for this many widgets and comms: a card that no page reported is closed a while after its end."""
    latest = time.monotonic() + PATIENCE
    while (found := kernel.run(COUNT).printed) != count:
        assert time.monotonic() < latest, found
        time.sleep(0.1)


@pytest.fixture
def page(kernel: Kernel) -> Iterator[Page]:
    """Return a page with its own panel on the kernel that the tests of this file share."""
    page = Page(kernel)
    yield page
    kernel.run("agentnb.panel().close()")
    page.close()


def test_panel_outside_a_notebook_suggests_what_to_type(snapshot: Snapshot) -> None:
    with pytest.raises(SettingsError, check=snapshot.worded):
        agentnb.panel()


def test_run_can_be_started_and_watched_in_the_panel(fresh: tuple[Kernel, Page]) -> None:
    kernel, page = fresh
    page.show(kernel)
    assert "No runs yet" in page.state("list")["html"]
    page.start("- Add with `add(1)`", "add")
    page.until_ended(1)
    assert page.state("form")["error"] == ""
    page.until(lambda: "add: 3" in page.shown and "agentnb-run" in page.shown)
    row = page.state("list")["html"]
    assert all(
        word in row for word in (">•<", "Done, not checked", "Add with `add(1)`", "rounds", "$0", "simulated:disciplined")
    )
    assert {note for rows, note in page.counts if rows} == {"1 run in .agentnb/runs"}, "rows and their count come together"
    assert kernel.value("run.status, [one.name for one in run.tools][0]") == "('completed', 'add')"
    assert page.state("list")["selected"] == kernel.value("run.id")
    assert "Add with" in kernel.run("%agent status").printed or "Done" in kernel.run("%agent status").printed
    went_on = kernel.run("%%agent --continue -t add\n- Now `add(5)`")
    assert went_on.status == "ok", went_on.error
    assert kernel.value("'add(1)' in run.messages[0].text, run.messages[-1].text.count('add: 7')") == "(True, 1)"


def test_older_run_is_opened_from_the_list(fresh: tuple[Kernel, Page]) -> None:
    kernel, page = fresh
    kernel.run("%%agent -m simulated:disciplined -o first\nthe first of them")
    page.show(kernel)
    page.start("the second of them")
    page.until_ended(2)
    assert page.state("list")["html"].index("the second") < page.state("list")["html"].index("the first")
    first = kernel.value("first.id")
    page.ask("list", do="open", run=first)
    page.until(lambda: "the first of them" in page.shown)
    assert page.state("list")["selected"] == first
    assert kernel.value("run.prompt") == "the second of them"
    page.ask("list", do="open", run="20000101-000000-nosuchrun")
    page.until(lambda: "There is no run" in page.state("list")["error"])
    assert "the first of them" in page.shown


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"prompt": " \n"}, "The prompt is blank"),
        ({"prompt": "x", "tools": ["ad"]}, "There is no tool 'ad' in this notebook. Did you mean add?"),
        ({"prompt": "x", "model": "simulatd:disciplined"}, "Did you mean simulated:disciplined"),
        ({"prompt": "x", "model": "acp:opencode"}, "'acp:opencode' is an external agent, not a model. Name it with --acp"),
        ({"prompt": "x", "guidance": "matricks"}, "matrix"),
        ({"prompt": "{{ nothing_there }}"}, "the variable 'nothing_there' is not defined"),
        ({"prompt": 3, "tools": 5}, "Failed: TypeError"),
    ],
)
def test_invalid_form_shows_one_line_and_starts_nothing(kernel: Kernel, page: Page, wanted: dict[str, Any], told: str) -> None:
    page.show(kernel)
    rows = page.rows()
    page.ask("form", **{"do": "start", "model": "simulated:disciplined", "tools": [], "guidance": "", **wanted})
    page.until(lambda: told in page.state("form")["error"])
    assert "\n" not in page.state("form")["error"] and "Traceback" not in page.state("form")["error"]
    page.ask("form", do="start", prompt="hello", model="", tools=[], guidance="")
    page.until(lambda: page.state("form")["error"] == "" and page.rows() == rows + 1)
    page.until_ended(rows + 1)


def test_key_in_an_error_is_redacted(kernel: Kernel, page: Page) -> None:
    kernel.run("import os; os.environ['ANTHROPIC_API_KEY'] = 'sk-ant-' + 'abc123' * 5")
    kernel.run("class Bad:\n    def __str__(self):\n        raise OSError('sk-ant-' + 'abc123' * 5)")
    kernel.run("bad = Bad()")
    page.show(kernel)
    page.ask("form", do="start", prompt="{{ bad }}", model="", tools=[], guidance="")
    page.until(lambda: "cannot be shown as text" in page.state("form")["error"])
    assert "abc123" not in page.state("form")["error"] and "[key]" in page.state("form")["error"]
    kernel.run("del os.environ['ANTHROPIC_API_KEY']")


def test_panel_choices_follow_the_notebook(kernel: Kernel, page: Page) -> None:
    page.show(kernel)
    offered = page.state("form")["offers"]
    assert {"add", "nap", "broken"} <= {one["name"] for one in offered["tools"]}
    assert next(one for one in offered["tools"] if one["name"] == "add")["about"] == "Add two numbers."
    assert offered["guidance"][:2] == ["matrix", "off"] and offered["default_guidance"] == "matrix"
    assert "simulated:forgetful" in offered["models"] and offered["model"] == "simulated:disciplined"
    kernel.run(
        "def later() -> int:\n    return 1\nfrom agentnb.models import ScriptedModel\nmine = ScriptedModel(['said by mine'])"
    )
    kernel.run("from agentnb import Agent\nseeker = Agent(mine, system='Seeks things. Briefly.')\npair = [seeker, later]")
    kernel.run("%%guidance terse\nSay little.")
    page.ask("form", do="look")
    page.until(lambda: "later" in [one["name"] for one in page.state("form")["offers"]["tools"]])
    offered = page.state("form")["offers"]
    about = {one["name"]: one["about"] for one in offered["tools"]}
    assert (about["seeker"], about["pair"]) == ("Seeks things.", "a list: agent, later")
    assert "terse" in offered["guidance"] and "mine" in offered["models"]
    count = page.rows()
    page.start("hello", model="mine", guidance="terse")
    page.until_ended(count + 1)
    # The list may show the end before the variable holds the run.
    page.until(lambda: kernel.value("run.text, run.settings['guidance']['set']") == "('said by mine', 'terse')")


def test_runs_of_cells_appear_in_the_panel_on_use(kernel: Kernel, page: Page) -> None:
    page.show(kernel)
    kernel.run("%%agent -m simulated:disciplined\nasked in a cell")
    assert "asked in a cell" not in page.state("list")["html"]
    page.ask("form", do="look")
    page.until(lambda: "asked in a cell" in page.state("list")["html"])
    kernel.run("%%agent -m simulated:disciplined\nand once more")
    page.ask("list", do="refresh")
    page.until(lambda: "and once more" in page.state("list")["html"])


def test_panel_runs_use_limits_and_budget_of_the_session(fresh: tuple[Kernel, Page]) -> None:
    kernel, page = fresh
    kernel.run(
        "from agentnb.models import ScriptedModel\nfrom agentnb.models.model import Reply\n"
        "from agentnb.core.messages import Message, Text\nfrom agentnb.core.usage import Usage\n"
        "paid = Reply(Message('assistant', (Text('Paid.'),)), usage=Usage(cost=0.5), stop_reason='end_turn')\n"
        "model = ScriptedModel([paid] * 9)"
    )
    page.show(kernel)
    kernel.run("%agent defaults max-rounds=2 session-budget=0.5")
    page.start("- Add with `add(1)`\n- And `add(2)`", "add")
    page.until_ended(1)
    assert kernel.value("run.stop_reason, run.max_rounds") == "('max_rounds', 2)"
    page.start("once", model="model")
    page.until_ended(2)
    assert "$0 left" in kernel.run("%agent status").printed
    page.start("twice", model="model")
    page.until(lambda: "The session budget is used up" in page.state("form")["error"])
    assert page.rows() == 2


def test_two_concurrent_runs_each_have_a_card(fresh: tuple[Kernel, Page]) -> None:
    kernel, page = fresh
    page.show(kernel)
    page.start("- first `nap(600)`", "nap")
    page.until(lambda: page.shown == "card" and page.rows() == 1)
    first = page.state("list")["selected"]
    page.start("- second `nap(600)`", "nap")
    page.until(lambda: page.rows() == 2 and page.state("list")["selected"] != first)
    second = page.state("list")["selected"]
    assert page.state("list")["html"].count("Running") == 2
    kernel.run(f"%agent stop {first}")
    page.until(lambda: "Stopped by you" in page.state("list")["html"])
    assert page.shown == "card" and page.state("list")["selected"] == second
    page.ask("list", do="open", run=first)
    page.until(lambda: "Stopped by you" in page.shown)
    page.ask("list", do="open", run=second)
    page.until(lambda: page.shown == "card" and page.state("list")["selected"] == second)
    kernel.run("%agent stop")
    page.until_ended(2)
    page.until(lambda: "Stopped by you" in page.shown)
    assert "second" in kernel.value("run.prompt")


def test_running_cell_run_is_shown_with_its_progress(fresh: tuple[Kernel, Page]) -> None:
    kernel, page = fresh
    page.show(kernel)
    kernel.run("%%agent -m simulated:disciplined -t nap --background\n- `nap(600)`")
    page.ask("list", do="refresh")
    run_id = kernel.value("run.id")
    page.ask("list", do="open", run=run_id)
    page.until(lambda: "Refresh shows its progress" in page.shown)
    kernel.run("%agent stop\nimport time\nwhile run.should_continue: time.sleep(0.01)")
    kernel.run("%agent stop")
    kernel.run("import time\nwhile run.should_continue: time.sleep(0.01)")
    page.ask("list", do="refresh")
    page.until(lambda: "Stopped by you" in page.shown and "Refresh shows" not in page.shown)


WORKFLOW = """
agents: {a: {instruction: Work., replies: [Said.]}}
workflow:
  - {id: write, type: agent, name: a}
  - {id: rest, type: tool, name: nap, args: {seconds: 0.2}}
  - {id: sure, type: human, ask: "Publish it?", confirm: true}
"""


def test_workflow_in_the_list_opens_its_graph_at_any_time(
    fresh: tuple[Kernel, Page],
) -> None:
    kernel, page = fresh
    page.show(kernel)
    kernel.run(f"%%workflow -t nap --background --prompt Tides\n{WORKFLOW}")
    run_id = kernel.value("run.id")
    page.ask("list", do="refresh")
    page.ask("list", do="open", run=run_id)
    page.until(lambda: "Refresh shows its progress" in page.shown and "write" in page.shown and "agent a" in page.shown)
    kernel.run("import time\nwhile not run.is_suspended and not run.waiting: time.sleep(0.01)\ntime.sleep(0.1)")
    page.ask("list", do="refresh")
    page.ask("list", do="open", run=run_id)
    page.until(lambda: "waiting for you" in page.shown and "Publish it?" in page.shown)
    kernel.run("%agent answer yes\nwhile run.should_continue: time.sleep(0.01)")
    page.ask("list", do="refresh")
    page.ask("list", do="open", run=run_id)
    page.until(lambda: "3 steps" in page.state("list")["html"] and "Done" in page.shown and "0 rounds" not in page.shown)
    assert not page.state("list")["error"] and not page.state("form")["error"]
    page.start("Go on.")
    page.until(lambda: "Go on." in page.state("list")["html"])
    assert not page.state("form")["error"]


def test_suspended_run_is_noted_and_its_card_has_the_command(fresh: tuple[Kernel, Page]) -> None:
    kernel, page = fresh
    page.show(kernel)
    kernel.run(
        "from agentnb.policies.gates import Ask\ndef careful(call, run):\n    return Ask('Nap') if call.name == 'nap' else None"
    )
    kernel.run("%%agent -m simulated:disciplined -t nap --gate careful\n- `nap(0)`")
    assert kernel.value("run.is_suspended") == "True"
    page.ask("list", do="refresh")
    page.until(lambda: "1 run waiting for your answer: open it to see the question" in page.state("list")["note"])
    assert "%agent" not in page.state("list")["html"]
    page.ask("list", do="open", run=kernel.value("run.id"))
    page.until(lambda: f"%agent answer {kernel.value('run.id[-8:]')}" in page.shown)
    done = kernel.run(f"%agent answer {kernel.value('run.id')} approve")
    assert done.status == "ok", done.error
    page.ask("list", do="refresh")
    page.until(lambda: "waiting" not in page.state("list")["note"])


def test_failure_to_create_the_log_is_shown_in_the_card(fresh: tuple[Kernel, Page]) -> None:
    kernel, page = fresh
    kernel.run(SOON_GIVEN_UP)
    page.show(kernel)
    before = kernel.run(COUNT).printed
    kernel.run("from pathlib import Path; Path('.agentnb').mkdir(exist_ok=True); Path('.agentnb/runs').write_text('')")
    page.start("hello")
    page.until(lambda: "The run log cannot be created" in page.shown and "Failed" in page.shown)
    until_count(kernel, before)
    assert kernel.value("run.status, len(run.rounds)") == "('failed', 0)"


@pytest.mark.skipif(not HEARS_WHILE_BUSY, reason="this ipykernel has no subshells")
def test_panel_starts_runs_while_a_cell_is_running(fresh: tuple[Kernel, Page]) -> None:
    kernel, page = fresh
    page.show(kernel)
    asked = page.client.session.msg("create_subshell_request")
    page.client.control_channel.send(asked)
    answer = page.client.get_control_msg(timeout=PATIENCE)
    page.subshell = answer["content"]["subshell_id"]
    code = "print('begun')\nwhile not globals().get('run'): time.sleep(0.01)"
    request = kernel.client.execute(code)  # a cell that ends only after the panel's run
    page.until(lambda: "begun" in page.printed)
    page.start("- Add with `add(1)`", "add")
    page.until_ended(1)
    reply = kernel.client.get_shell_msg(timeout=PATIENCE)
    while reply["parent_header"]["msg_id"] != request:
        reply = kernel.client.get_shell_msg(timeout=PATIENCE)
    assert reply["content"]["status"] == "ok"


def test_each_kernel_has_one_panel_without_leaks(fresh: tuple[Kernel, Page]) -> None:
    kernel, page = fresh
    kernel.run(SOON_GIVEN_UP)
    bundle = page.show(kernel)
    before = kernel.run(COUNT).printed
    assert page.show(kernel)[VIEW] == bundle[VIEW]
    for count in range(1, 4):
        page.start("- Add with `add(1)`", "add")
        page.until_ended(count)
        for run in kernel.value("' '.join(one.id for one in agentnb.Store('.agentnb/runs').summaries())").split():
            page.ask("list", do="open", run=run)
    until_count(kernel, before)
    kernel.run("p = agentnb.panel()\np.close()\np.close()")
    until_count(kernel, "0 0\n")
    assert kernel.value("VIEW in p._repr_mimebundle_()".replace("VIEW", repr(VIEW))) == "False"
    assert page.show(kernel)[VIEW] != bundle[VIEW]


def test_notebook_without_kernel_shows_a_message_instead(kernel: Kernel, page: Page) -> None:
    bundle = page.show(kernel)
    assert set(bundle) == {VIEW, "text/plain", "text/html"}
    assert bundle["text/plain"].startswith("The agentnb panel starts runs without a cell.")
    assert bundle["text/plain"] in bundle["text/html"]


def test_panel_loads_the_extension_if_needed(tmp_path: Any) -> None:
    kernel = Kernel(tmp_path)
    cell = kernel.run("import agentnb\nagentnb.panel()")
    assert cell.status == "ok", cell.error
    assert "already loaded" in kernel.run("%load_ext agentnb").printed
    assert "Nothing has run yet" in kernel.run("%agent status").printed
    kernel.close()


def test_prints_of_tools_are_shown_at_their_calls(fresh: tuple[Kernel, Page]) -> None:
    kernel, page = fresh
    kernel.run("def loud() -> int:\n    print('said aloud')\n    return 1")
    page.show(kernel)
    page.start("- `loud()`", "loud")
    page.until_ended(1)
    page.until(lambda: "said aloud" in page.shown)  # the list may show the end before the card gives way to the page
    assert page.printed == ""
    assert kernel.value("[one.printed for each in run.rounds for one in each.records if one.printed]") == r"['said aloud\n']"
