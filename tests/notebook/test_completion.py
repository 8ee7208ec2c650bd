"""Tab and ``?``, as a frontend requests them."""

from __future__ import annotations

from typing import Any

import pytest


def complete(kernel: Any, code: str, at: int | None = None) -> list[str]:
    reply = kernel.client.complete(code, len(code) if at is None else at, reply=True, timeout=30)
    return reply["content"]["matches"]


def test_options_models_tools_and_commands_are_completed(kernel: Any, subtests: pytest.Subtests) -> None:
    kernel.run("stations = {'north': 'oban'}\nknown_run = __import__('agentnb').Run()")
    kernel.run("finder = __import__('agentnb').Agent('simulated:disciplined')")
    for code, offered in [
        ("%%agent --ma", "--max-rounds"),
        ("%%agent -m sim", "simulated:disciplined"),
        ("%%agent -m simulated:disciplined -t a", "add"),
        ("%%agent -t add na", "nap"),
        ("%%agent -t fin", "finder"),
        ("%%agent -t stations.ge", "stations.get"),
        ("%%workflow -t add time.slee", "time.sleep"),
        ("%agent tools time.slee", "time.sleep"),
        ("%agent recover -t time.slee", "time.sleep"),
        ("%agent his", "history"),
        ("%agent history fa", "failed"),
        ("%agent tools ad", "add"),
        ("%agent defaults mo", "model="),
        ("%agent defaults on-limit=f", "on-limit=final_answer"),
        ("%%agent --on-limit r", "raise"),
        ("%%agent --on-stop c", "continue"),
        ("%%agent --app", "--approve"),
        ("%%agent --approve r", "read_only"),
        ("%%workflow --approve n", "never"),
        ("%agent defaults on-stop=c", "on-stop=continue"),
        ("%%agent --history doc", "documented"),
        ("%%agent --continue know", "known_run"),
        ("%%agent --bud", "--budget"),
        ("%agent rec", "recover"),
        ("%%workflow --pro", "--prompt"),
        ("%%workflow --str", "--strict"),
        ("%%workflow -m sim", "simulated:disciplined"),
        ("%%workflow -t a", "add"),
        ("%%workflow --on-stop c", "continue"),
        ("%%workflow -i stat", "stations"),
        ('%%workflow --expect "ste', '"steps'),
        ("%%plan --ou", "--out"),
        ("%%plan -t a", "add"),
        ("%%experiment --des", "--design"),
        ("%%experiment --back", "--background"),
        ("%replay complex", "complex-fails"),
        ("%replay healthy -p mi", "minimal"),
        ("%replay healthy -d def", "default"),
        ("%replay healthy --work", "--workflow-mode"),
    ]:
        with subtests.test(code):
            assert offered in complete(kernel, code)


def test_cell_completes_only_its_own_options(kernel: Any) -> None:
    assert complete(kernel, "%%agent --gate fin") == [] and "add" in complete(kernel, "%%agent --gate ad")
    assert complete(kernel, "%%workflow --work") == [] and complete(kernel, "%%agent --stri") == []


def test_completion_works_in_a_cell_with_a_body(kernel: Any) -> None:
    assert complete(kernel, "%%agent --back\nDo it.", 14) == ["--background"]


def test_completion_outside_agent_cells_is_unchanged(kernel: Any) -> None:
    kernel.run("%config Completer.use_jedi = False")  # it reads the whole standard library first
    assert "--max-rounds" not in complete(kernel, "print(--ma")
    assert "add" in complete(kernel, "ad")


def test_agent_magic_has_help(kernel: Any) -> None:
    cell = kernel.run("%%agent?")
    help_text = str([one for one in cell.outputs if one["type"] != "status"]) + str(cell.result)
    reply = kernel.client.execute("%%agent?", reply=True, timeout=30)
    payload = "".join(one.get("data", {}).get("text/plain", "") for one in reply["content"]["payload"])
    assert "--approve MODE" in payload + help_text
    assert "--max-rounds" in payload + help_text and "Let an agent work on the text of this cell" in payload + help_text


def test_workflow_magic_has_help(kernel: Any) -> None:
    reply = kernel.client.execute("%%workflow?", reply=True, timeout=30)
    text = "".join(item.get("data", {}).get("text/plain", "") for item in reply["content"]["payload"])
    for words in (
        "Run the workflow that this cell declares",
        "--prompt TEXT",
        "--strict",
        "%%workflow [-m MODEL]",
        "--rerun-from STEP",
        "--approve MODE",
        "never: calls that would ask",
    ):
        assert words in text, text
