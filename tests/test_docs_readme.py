"""README.md and its linked pages are current: their cells run in order, and their links and names resolve."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from agentnb.core.questions import AskedQuestion, JudgedCall, WaitingOnUser
from agentnb.core.run.rounds import NOT_RUN
from agentnb.detect.run_states import STATES
from agentnb.display.texts.states import ENDED, LIMIT_WORDS
from agentnb.notebook.commands.mcp.configure import ADD_OPTIONS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ONE_PAGE = pytest.mark.nightly("by day the cells of another page print what it quotes")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
OF_COMMANDS = {"--cancel", "--decline", "--here", "--no-trust-log", "--tag", "--trust-log", *ADD_OPTIONS}
"""Options of `%agent answer`, `recover`, `history` and `mcp add`, documented by their errors only."""
OF_OTHERS = {
    "--browser",
    "--config",
    "--enable-auto-tool-choice",
    "--jinja",
    "--mmproj",
    "--output-format",
    "--tool-call-parser",
}
"""Options of other programs."""
DRIVER = """
import asyncio, getpass, json, os, sys, threading
from IPython.core.interactiveshell import InteractiveShell
from agentnb.notebook.ipython_extension import session_of
from agentnb.testing import LoopbackServer

server = LoopbackServer(lambda body: "Hello.").start()  # stands in for the provider
os.environ["ANTHROPIC_BASE_URL"] = server.url
getpass.getpass = lambda *given, **named: "sk-test-0123456789"
sleep, surveying = asyncio.sleep, threading.Event()

async def seen(seconds, *given):
    if seconds == 3600:
        surveying.set()
    return await sleep(seconds, *given)

asyncio.sleep = seen
shell = InteractiveShell.instance()
for number, cell in json.load(sys.stdin):
    print("CELL", number, flush=True)
    if "%agent stop" in cell:  # a reader sees in the card that the tool is at work
        assert surveying.wait(60)
    shell.run_cell(cell).raise_error()
    if "%agent stop" in cell:  # and that it has stopped
        [live.result(60) for live in session_of(shell).running()]
print("ENDED", flush=True)
os._exit(0)  # tools that are still at work are none of this test's
"""

A_RUN = """%load_ext agentnb
from agentnb import Agent, Store
run = Agent('simulated:disciplined').run_sync('Hello.', store=Store('.agentnb/runs'))
"""

TRANSLATED = {
    "words alone": "a text-only reply",
    "in words": "as text",
    "gone on with": "continued",
    "go on with": "continue",
    "named anew": "specified again",
    "begins anew": "restarts",
    "turns in circles": "loops",
    "(otherwise": "(default:",
    "is no tool": "is not a tool",
    "is no list": "is not a list",
    "are no language": "are not language",
    "is no language": "is not a language",
    "speaks like": "-compatible",
    "trouble that passes": "transient errors",
    "kept to its work": "kept on task",
}
"""Turns of phrase that sound translated, and what to write instead."""


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def cells(page: Path) -> list[tuple[int, str]]:
    """Return the numbered cells of a page, without shell commands."""
    return list(enumerate(code for language, code in FENCE.findall(text(page)) if language in {"", "python"}))


def run(numbered: list[tuple[int, str]]) -> tuple[str, str]:
    """Run cells in a fresh shell; return the output and standard error."""
    command = [sys.executable, "-c", DRIVER]
    done = subprocess.run(command, input=json.dumps(numbered), capture_output=True, text=True, timeout=120, check=False)
    return done.stdout, done.stderr


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.slow("starts IPython and imports pandas")
def test_readme_cells_run_in_order() -> None:
    numbered = cells(ROOT / "README.md")
    assert len(numbered) > 4
    printed, complained = run(numbered)
    assert "ENDED" in printed, printed + complained


@pytest.mark.nightly("by day the cells of other pages run, and killed runs are recovered")
@pytest.mark.slow("starts IPython twice: the page kills its kernel")
def test_first_hour_page_runs_and_survives_its_kernels_death() -> None:
    numbered = cells(ROOT / "docs" / "first-hour.md")
    printed, complained = run(numbered)
    assert "ENDED" not in printed, "the kernel should have died"
    died = int(re.findall(r"CELL (\d+)", printed)[-1])
    assert "os._exit" in numbered[died - 1][1] and "%%agent" in numbered[died][1], printed + complained
    look = "print('RESULT', run.status, run.times_recovered, set(runs['status']))"
    printed, complained = run([*numbered[died + 1 :], (len(numbered), look)])
    assert "ENDED" in printed, printed + complained
    assert re.search(r"RESULT completed 1 \{.*'cancelled'.*\}", printed), printed


@pytest.mark.slow("starts IPython and imports pandas")
@pytest.mark.parametrize(("page", "first"), [("runs.md", A_RUN), pytest.param("difference.md", "", marks=ONE_PAGE)])
def test_page_cells_run_and_print_the_quoted_output(page: str, first: str) -> None:
    printed, complained = run([(0, first), *((number + 1, cell) for number, cell in cells(ROOT / "docs" / page))])
    assert "ENDED" in printed, printed + complained
    quoted = [code for language, code in FENCE.findall(text(ROOT / "docs" / page)) if language == "text"]
    assert [line for line in "".join(quoted).splitlines() if line not in printed] == [], printed


def test_runs_page_explains_every_state_and_code() -> None:
    pages = [text(ROOT / "docs" / name).splitlines() for name in ("runs.md", "limits.md")]
    rows = [line for lines in pages for line in lines if line.startswith("| ")]
    for status, word in STATES.items():
        assert any(f"`{status}`" in row and word in row for row in rows), status
    for reason, word in ENDED.items():
        assert any(f"`{reason}` ({word})" in row for row in rows), reason
    limits = {*LIMIT_WORDS}
    for code in limits | NOT_RUN | {"tool_error", "timeout"}:
        assert any(f"`{code}`" in row for row in rows), code


def test_question_attributes_on_the_page_exist() -> None:
    paragraph = text(ROOT / "docs" / "questions.md").partition("A question is a")[2].partition("## ")[0]
    names = {name for kind in (WaitingOnUser, AskedQuestion, JudgedCall) for name in dir(kind)}
    assert set(re.findall(r"`(\w+)`", paragraph)) - names == {WaitingOnUser.__name__, AskedQuestion.__name__}
    assert f"from `{AskedQuestion.__module__}`" in paragraph


def test_first_readme_screen_has_purpose_picture_installation_and_cell() -> None:
    written = text(ROOT / "README.md")
    assert len(written.split()) <= 900
    places = [written.index(part) for part in ("# agentnb", "![", "## Install", "## First cell", "%%agent")]
    assert places == sorted(places)


def test_every_link_on_a_page_resolves(subtests: pytest.Subtests) -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", text(page))):
            if "://" in target:
                continue
            with subtests.test(f"{page.name}: {target}"):
                path, _, anchor = target.partition("#")
                other = (page.parent / path).resolve() if path else page
                assert other.exists()
                assert not anchor or anchor in anchors(other)


def test_every_page_is_listed_and_steps_are_one_click_away() -> None:
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", text(ROOT / "docs" / "README.md")))
    assert listed == {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    steps = re.findall(r"^## (.+)$", text(ROOT / "docs" / "first-hour.md"), re.MULTILINE)
    linked = set(re.findall(r"first-hour\.md#([\w-]+)", text(ROOT / "README.md")))
    assert linked == {step.lower().replace(" ", "-") for step in steps} - {"first-cell"}


def test_every_option_named_on_a_page_exists(subtests: pytest.Subtests) -> None:
    reference = text(ROOT / "docs" / "reference.md")
    known = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", reference)) | OF_COMMANDS | OF_OTHERS
    for page in [page for page in PAGES if page.name != "commands.md"]:  # generated from the options of other programs
        with subtests.test(page.name):
            told = " ".join(re.findall(r"`([^`]+)`", FENCE.sub("", text(page))))
            assert set(re.findall(r"(?<!\S)--[a-z][a-z-]*", told)) - known == set()


def test_python_versions_named_match_the_nightly_tests() -> None:
    told = re.search(r"tested on (3\.\d+) to (3\.\d+)", text(ROOT / "README.md"))
    assert told is not None
    versions = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", name)]
    assert (versions[0], versions[-1]) == told.groups()
    nightly = re.search(r"for version in ([\d. ]+);", text(ROOT / "Makefile"))
    assert nightly is not None and set(versions) <= set(nightly[1].split())


def test_readme_commands_exist() -> None:
    written, makefile = text(ROOT / "README.md"), text(ROOT / "Makefile")
    for target in ("demo", "test"):
        assert f"\nmake {target} " in written and f"\n{target}:" in makefile
    extras = re.search(r'pip install -e "\.\[([\w,]+)\]"', written)
    assert extras is not None and set(extras[1].split(",")) <= set(PROJECT["optional-dependencies"])
    installed = {
        requirement.partition(">")[0] for name in extras[1].split(",") for requirement in PROJECT["optional-dependencies"][name]
    }
    assert installed >= {"cloudpickle", "loky"}  # for the notebook of experiments: executor="processes"


def test_files_named_in_the_architecture_exist(subtests: pytest.Subtests) -> None:
    page = text(ROOT / "docs" / "architecture.md")
    modules = {path.as_posix() for path in (ROOT / "agentnb").rglob("*.py")}
    for name in sorted(set(re.findall(r"`([\w/]+\.py)`", page))):
        with subtests.test(name):
            assert any(module.endswith(f"/{name}") for module in modules)


def test_user_facing_texts_do_not_sound_translated(subtests: pytest.Subtests) -> None:
    read = {page.name: text(page) for page in [*PAGES, ROOT / "CHANGELOG.md"]}
    for notebook in sorted((ROOT / "notebooks").glob("??_*.ipynb")):
        markdown = (cell for cell in json.loads(text(notebook))["cells"] if cell["cell_type"] == "markdown")
        read[notebook.name] = "\n".join("".join(cell["source"]) for cell in markdown)
    for name, written in read.items():
        with subtests.test(name):
            words = " ".join(written.split())
            assert {old: new for old, new in TRANSLATED.items() if re.search(rf"(?<!\w){re.escape(old)}\b", words)} == {}
