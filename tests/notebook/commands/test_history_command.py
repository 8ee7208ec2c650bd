"""``%agent history``: the list of runs, in a kernel and in a terminal."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot


@pytest.fixture(scope="module", autouse=True)
def runs(kernel: Any) -> None:
    kernel.run("from agentnb.models import ScriptedModel\ngood = ScriptedModel(['The **answer** is 42.'] * 9)")
    kernel.run("bad = ScriptedModel([RuntimeError('no <b>luck</b>')] * 9)")
    kernel.run("%%agent -m good\nWhat is six times seven?")
    kernel.run("%%agent -m bad\nBreak it, in the month of May")
    kernel.run("%%agent -m good\nSix times seven once more, in June")


def names(kernel: Any, line: str) -> list[str]:
    """Return the last word of each listed prompt, and the line above the list."""
    told, *lines = kernel.run(line).listing["text/plain"].split("\n")
    return [told, *[row.split()[-1] for row in lines]]


def test_run_list_expands_without_a_widget(kernel: Any) -> None:
    cell = kernel.run("%agent history")
    html = cell.listing["text/html"]
    assert set(cell.listing) == {"text/plain", "text/html"} and not cell.printed
    assert html.count("<details") == 3 and "<strong>answer</strong>" in html and "<b>luck" not in html
    assert len(re.findall(r"%agent load \d{8}-\d{6}-[0-9a-f]{11}", html)) == 3


def test_newest_runs_are_listed_first_up_to_the_limit(kernel: Any) -> None:
    assert names(kernel, "%agent history") == ["3 runs in .agentnb/runs", "June", "May", "seven?"]
    assert names(kernel, "%agent history 2") == ["3 runs in .agentnb/runs, the newest 2", "June", "May"]
    assert len(names(kernel, "%agent history 9999")) == 4
    assert "Write a number from 1 to 200" in kernel.run("%agent history 0").error


def test_text_filters_the_run_list(kernel: Any, snapshot: Snapshot) -> None:
    assert names(kernel, "%agent history failed") == snapshot
    assert names(kernel, "%agent history 1 six COMPLETED") == snapshot
    assert names(kernel, "%agent history 'six times' completed")[1:] == ["June", "seven?"]
    assert "0 match “nowhere”" in names(kernel, "%agent history nowhere")[0]


def test_tags_filter_the_run_list(kernel: Any) -> None:
    kernel.run("%%agent -m good --tag night --tag v2\nTagged, in July")
    kernel.run("%%agent -m good --tag night\nTagged, in August")
    assert kernel.value("list(run.tags)") == "['night']"
    assert names(kernel, "%agent history --tag night")[1:] == ["#night", "#v2"]
    told, line = kernel.run("%agent history --tag night --tag=v2").listing["text/plain"].split("\n")
    assert told.endswith(", 1 matches “#night” and “#v2”") and line.endswith("Tagged, in July  #night #v2")
    assert "#night #v2" in kernel.run("%agent history v2").listing["text/html"]
    assert names(kernel, "%agent history --tag nigh")[1:] == []
    assert "Write %agent history --tag WORD" in kernel.run("%agent history --tag").error


def test_truncated_log_does_not_break_the_list(kernel: Any) -> None:
    kernel.run("%%agent -m good -o torn\nTorn")
    kernel.run("path = f'.agentnb/runs/{torn.id}.jsonl'\nlines = open(path).read().splitlines(True)")
    kernel.run("open(path, 'w').write(''.join([lines[0], 'hello\\n', *lines[1:]])) and None")
    html = kernel.run("%agent history").listing["text/html"]
    assert "line 2: Not an agentnb event" in html and "June" in html
    kernel.run("import os\nos.remove(path)")


def test_listing_does_not_change_which_run_is_continued(kernel: Any) -> None:
    kernel.run("%%agent -m good -o last\nThe last")
    kernel.run("%agent history")
    kernel.run("%%agent -m good --continue\nAnd now?")
    assert kernel.value("run.continued_from == last.id") == "True"


NESTED = '''
from agentnb import Agent, Store, ToolCall
async def helped() -> str:
    """Has another agent help."""
    return (await Agent(ScriptedModel(["Yes."]), todos=False).run("Nested, please", store=Store(".agentnb/runs"))).text
outer = ScriptedModel([ToolCall("helped", {}), "It helped."])
'''


def test_runs_started_by_tools_are_counted_and_listed_on_request(kernel: Any) -> None:
    kernel.run(NESTED)
    kernel.run("%%agent -m outer -t helped -o top\nNeed help")
    listed = kernel.run("%agent history 1").listing["text/plain"].split("\n")[1:]
    assert len(listed) == 1 and listed[0].endswith("Need help  (1 nested)")
    top, nested = kernel.run("%agent history 1 --nested").listing["text/plain"].split("\n")[1:]
    assert top == listed[0] and nested.endswith("↳ Nested, please")
    kernel.run(f"import os\nfor one in (top.id, '{nested.split()[0]}'): os.remove(f'.agentnb/runs/{{one}}.jsonl')")


@pytest.mark.nightly("by day kernels print it, and IPython prints a run in a terminal")
def test_terminal_prints_the_history(tmp_path: Path) -> None:
    lines = ["%load_ext agentnb", "%agent history", "get_ipython().run_cell_magic('agent', '', 'hello')", "%agent history"]
    code = (
        "import os\nos.environ['IPYTHONDIR'] = os.environ['HOME'] = os.getcwd()\n"
        "from IPython.core.interactiveshell import InteractiveShell\nshell = InteractiveShell.instance()\n"
        f"for line in {lines!r}:\n    shell.run_cell(line).raise_error()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "0 runs in .agentnb/runs" in done.stdout and "1 run in .agentnb/runs" in done.stdout
    assert re.search(r"Done, not checked +1 round +\$0 .* hello$", done.stdout, re.MULTILINE)
