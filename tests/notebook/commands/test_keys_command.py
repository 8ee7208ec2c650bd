"""``%agent key``: a key is requested and kept, and shown nowhere."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from asserted_sentences import Snapshot
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from agentnb.errors import SettingsError
from agentnb.notebook.commands.key_command import key_verdict

SECRET = "sk-ant-test-0123456789abcdef"
PATIENCE = 60.0

IN_MEMORY = """
import keyring
from keyring.backend import KeyringBackend

class Memory(KeyringBackend):
    priority = 0.1
    held = {}

    def get_password(self, service, username):
        return self.held.get((service, username))

    def set_password(self, service, username, password):
        self.held[service, username] = password

    def delete_password(self, service, username):
        del self.held[service, username]

keyring.set_keyring(Memory())
"""

Asked = Callable[..., tuple[Any, list[dict[str, Any]]]]


@pytest.fixture
def asked(kernel: Any) -> Iterator[Asked]:
    """Run a cell and answer its prompts; return the cell and the prompts."""

    def run(code: str, answer: str) -> tuple[Any, list[dict[str, Any]]]:
        questions: list[dict[str, Any]] = []

        def respond(cell: Any) -> bool:
            if kernel.client.stdin_channel.msg_ready():
                questions.append(kernel.client.get_stdin_msg(timeout=PATIENCE)["content"])
                kernel.client.input(answer)
            return False  # no interrupt

        return kernel.run(code, interrupt_when=respond, attended=True), questions

    yield run
    kernel.run("%agent key anthropic --forget\n%agent key openai --forget")


@pytest.fixture
def everything_told(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Collect everything that the kernel publishes from now on."""
    messages: list[str] = []
    read = kernel.client.get_iopub_msg

    def listening(**options: Any) -> Any:
        message = read(**options)
        messages.append(str(message))
        return message

    monkeypatch.setattr(kernel.client, "get_iopub_msg", listening)

    def told() -> str:
        kernel.run("print('the end')")
        return "\n".join(messages)

    return told


def key_of(kernel: Any, name: str) -> str:
    code = f"__import__('agentnb').settings.find_key({name!r}), getattr(__import__('agentnb').settings.find_key({name!r}), "
    return kernel.value(code + "'reveal', str)()")  # type: ignore[no-any-return]


def test_key_is_read_without_echo_and_stored(kernel: Any, asked: Asked, snapshot: Snapshot) -> None:
    cell, questions = asked("%agent key anthropic", SECRET + "\n")
    assert questions == [{"prompt": "The key (ANTHROPIC_API_KEY, for anthropic: models): ", "password": True}]
    assert cell.printed == snapshot
    assert key_of(kernel, "anthropic") == f"(<key ANTHROPIC_API_KEY from this kernel>, '{SECRET}')"


def test_key_never_appears_in_output_or_history(kernel: Any, asked: Asked, everything_told: Callable[[], str]) -> None:
    asked("%agent key anthropic", SECRET)
    kernel.run("%history -n")
    kernel.run("%agent key")
    kernel.run("agentnb = __import__('agentnb'); agentnb.settings.find_key('anthropic')")
    kernel.run("print(In, Out, _ih, _oh, _i, _ii, globals())")
    kernel.run("get_ipython().history_manager.writeout_cache()")
    published = everything_told()
    assert "%agent key anthropic" in published and "<key ANTHROPIC_API_KEY from this kernel>" in published
    assert SECRET not in published
    contents = [read_if_there(file) for file in (kernel.folder / "ipython").rglob("history.sqlite*")]
    assert contents and not any(SECRET.encode() in content for content in contents)


def read_if_there(file: Path) -> bytes:
    """Return the content of the file, or nothing if it is gone, like the journal of a database."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""


def test_provider_with_a_stored_key_counts_as_having_one(kernel: Any, asked: Asked, snapshot: Snapshot) -> None:
    asked("%agent key openai", SECRET)
    lines = kernel.run("%agent key").printed.splitlines()
    assert [line.split() for line in lines[:2]] == [
        ["ANTHROPIC_API_KEY", "no", "key", "anthropic:"],
        ["OPENAI_API_KEY", "from", "this", "kernel", "openai:,", "openai-responses:"],
    ]
    assert lines[-1] == snapshot


def test_github_token_is_requested_by_its_short_name(kernel: Any, asked: Asked, snapshot: Snapshot) -> None:
    cell, questions = asked("%agent key github", "ghp_test-0123456789abcdef")
    assert questions == [{"prompt": "The key (GITHUB_TOKEN, for github tools): ", "password": True}]
    assert cell.printed == snapshot
    lines = kernel.run("%agent key").printed.splitlines()
    assert [line.split() for line in lines if "GITHUB" in line] == [
        ["GITHUB_TOKEN", "from", "this", "kernel", "github:,", "github", "tools"]
    ]
    kernel.run("%agent key github --forget")


def test_variable_of_another_provider_can_be_given(kernel: Any, asked: Asked, snapshot: Snapshot) -> None:
    cell, questions = asked("%agent key GATEWAY_API_KEY", SECRET)
    assert questions[0]["prompt"] == "The key (GATEWAY_API_KEY): "
    assert cell.printed == snapshot
    assert "GATEWAY_API_KEY      from this kernel" in kernel.run("%agent key").printed
    kernel.run("%agent key GATEWAY_API_KEY --forget")


@pytest.mark.parametrize("answer", ["", "  ", "\x04"])
def test_empty_key_is_not_stored(kernel: Any, asked: Asked, answer: str) -> None:
    cell, _ = asked("%agent key anthropic", answer)
    assert cell.status == "ok"
    assert cell.printed == "No key was entered: ANTHROPIC_API_KEY is unchanged\n"
    assert "ANTHROPIC_API_KEY    no key" in kernel.run("%agent key").printed


def test_malformed_key_is_refused_without_being_repeated(kernel: Any, asked: Asked, everything_told: Callable[[], str]) -> None:
    cell, _ = asked("%agent key anthropic", "sk-ant-one sk-ant-two")
    why = "That is not a key for ANTHROPIC_API_KEY: it contains whitespace. Nothing was stored. Copy the complete key again"
    assert cell.error == f"SettingsError: {why}"
    kernel.run("%tb")
    assert "sk-ant" not in everything_told()


def test_key_can_be_stored_in_the_keyring_and_removed(kernel: Any, asked: Asked, snapshot: Snapshot) -> None:
    kernel.run(IN_MEMORY)
    cell, _ = asked("%agent key anthropic --keyring", SECRET)
    assert cell.printed.startswith(
        "ANTHROPIC_API_KEY is stored in this kernel until it ends, and in the system's keyring. Next:"
    )
    assert kernel.value("Memory.held") == str({("agentnb", "ANTHROPIC_API_KEY"): SECRET})
    kernel.run("from agentnb import settings; settings._held = settings._Held()")  # as at the start of a new kernel
    assert "ANTHROPIC_API_KEY    from the keyring" in kernel.run("%agent key").printed
    assert kernel.run("%agent key anthropic --forget").printed == snapshot
    assert kernel.value("Memory.held") == "{}"


def test_forget_option_reports_keys_still_in_the_environment(kernel: Any, asked: Asked, snapshot: Snapshot) -> None:
    assert kernel.run("%agent key openai --forget").printed == "OPENAI_API_KEY was not stored\n"
    asked("%agent key openai", SECRET)
    kernel.run("import os; os.environ['OPENAI_API_KEY'] = 'x'")
    printed = kernel.run("%agent key openai --forget").printed
    assert printed == snapshot
    kernel.run("del os.environ['OPENAI_API_KEY']")


def test_key_prompt_can_be_interrupted(kernel: Any) -> None:
    cell = kernel.run(
        "%agent key anthropic", interrupt_when=lambda cell: kernel.client.stdin_channel.msg_ready(), attended=True
    )
    assert cell.error == "SettingsError: Interrupted: nothing was stored"
    kernel.client.get_stdin_msg(timeout=PATIENCE)


def test_key_in_the_key_command_is_refused_without_repeating_it(subtests: pytest.Subtests) -> None:
    for line in [
        f"anthropic {SECRET}",
        f"{SECRET}",
        f"{SECRET} --keyring",
        f"anthropic --keyring {SECRET}",
        f"anthropic={SECRET}",
        "ANTHROPIC_API_KEY=short",
        f"anthropic --key={SECRET}",
        f"anthropic -{SECRET}",
        f"anthropic '{SECRET}'",
        "anthropic short",
    ]:
        with subtests.test(line):
            with pytest.raises(SettingsError) as caught:
                key_verdict(line.split())
            assert "%agent key NAME asks for it. Nothing was stored" in caught.value.what
            assert "Delete it from the cell" in caught.value.hint and "revoke the key" in caught.value.hint
            assert "sk-ant" not in repr(caught.value) and "short" not in repr(caught.value)


def test_invalid_key_command_lists_the_valid_ones(subtests: pytest.Subtests) -> None:
    for line, expected in [
        ("anthropic --keyrin", "%agent key has no such option. Did you mean --keyring?"),
        ("anthropic --x", "%agent key has no such option. Available: --keyring, --forget."),
        ("anthropic forget", "Write --forget"),
        ("--forget", "Which key? Write: %agent key anthropic"),
        ("antropic", "That is not the name of a key. Did you mean anthropic?"),
    ]:
        with subtests.test(" ".join(line) or "nothing"):
            with pytest.raises(SettingsError) as caught:
                key_verdict(line.split())
            assert str(caught.value).startswith(expected)


def test_key_command_does_not_expand_variables(kernel: Any) -> None:
    kernel.run("mine = 'anthropic'")
    for line in ("%agent key {mine} --forget", "%agent key $mine --forget"):
        assert "That is not the name of a key" in kernel.run(line).error


def test_key_instead_of_a_command_is_not_repeated(kernel: Any, subtests: pytest.Subtests) -> None:
    for line in [f"%agent {SECRET}", f"%agent key={SECRET}"]:
        with subtests.test(line):
            error = kernel.run(line).error
            assert error.startswith("SettingsError: There is no command like this") and SECRET not in error


def test_names_and_options_are_completed(kernel: Any, subtests: pytest.Subtests) -> None:
    for code, offered in [
        ("%agent ke", "key"),
        ("%agent key an", "anthropic"),
        ("%agent key OPENAI", "OPENAI_API_KEY"),
        ("%agent key anthropic --f", "--forget"),
        ("%agent key anthropic ", "--keyring"),
    ]:
        with subtests.test(code):
            reply = kernel.client.complete(code, len(code), reply=True, timeout=PATIENCE)
            assert offered in reply["content"]["matches"]


# Without a person to ask


def test_frontend_without_input_explains_what_to_do(tmp_path: Path) -> None:
    cells = [nbformat.v4.new_code_cell(cell) for cell in ("%load_ext agentnb", "%agent key anthropic")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    with pytest.raises(CellExecutionError) as caught:
        NotebookClient(notebook, kernel_name="python3", timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    expected = "This frontend cannot ask for ANTHROPIC_API_KEY without showing it. Set that variable before Jupyter"
    assert expected in str(caught.value)
    assert notebook.cells[1].outputs[0]["traceback"][0].startswith(f"SettingsError: {expected}")


def test_key_is_not_requested_in_a_terminal_that_echoes(tmp_path: Path) -> None:
    code = "ip = get_ipython()\nip.run_line_magic('load_ext', 'agentnb')\nip.run_cell('%agent key anthropic')\n"
    (tmp_path / "script.py").write_text(code)
    command = [sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor", "script.py"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, input=SECRET, timeout=120, start_new_session=True
    )
    assert "SettingsError: This frontend cannot ask for" in done.stdout + done.stderr


# Runs


def test_key_returned_by_a_tool_is_redacted(kernel: Any, asked: Asked, everything_told: Callable[[], str]) -> None:
    asked("%agent key anthropic", SECRET)
    kernel.run('def leak() -> str:\n    """Tell."""\n    return settings.find_key("anthropic").reveal()')
    kernel.run('def fail() -> str:\n    """Fail."""\n    raise ValueError(settings.find_key("anthropic").reveal())')
    kernel.run("from agentnb import settings, tables")
    cell = kernel.run("%%agent -m simulated:disciplined -t leak fail\n- first `leak()`\n- then `fail()`")
    assert cell.status == "ok" and "[key]" in cell.shown and "[key]" in cell.displays[-1]["text/html"]
    live = kernel.run("%%agent -m simulated:disciplined -t leak fail\n- first `leak()`\n- then `fail()`", attended=True)
    assert live.status == "ok"  # the live card: messages of its widget are published too
    kernel.run("run\n")
    kernel.run("print(list(run.events), run.messages)")
    kernel.run("print(tables.tool_calls(run).to_csv(), tables.messages(run).to_csv(), tables.rounds(run).to_csv())")
    assert SECRET not in everything_told()
    logs = list(kernel.folder.rglob("*.jsonl"))
    assert logs and not [log for log in logs if SECRET.encode() in log.read_bytes()]
