"""Options of a cell that add extensions to its agent: a table row each."""

from __future__ import annotations

from typing import Any

import pytest
from IPython.core.magic_arguments import magic_arguments, parse_argstring

from agentnb.agent.agent import Agent
from agentnb.agent.extension import Extension
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.notebook.cells import extension_options
from agentnb.notebook.cells.extension_options import ExtensionOption, chosen_extensions, extensions_again


def make_extension(settings: Any) -> Extension:
    return Extension(name="two-plans", settings={"most": 3, **settings})


def test_registered_option_adds_an_extension_even_on_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extension_options.OPTIONS, "two-plans", ExtensionOption("let it plan", make_extension))

    @magic_arguments("agent")
    @extension_options.extension_options
    def cell(line: str) -> None:
        """A cell."""

    assert [extension.name for extension in chosen_extensions(parse_argstring(cell, "--two-plans"))] == ["two-plans"]
    assert chosen_extensions(parse_argstring(cell, "")) == ()
    run = Agent(ScriptedModel(["Done."]), extensions=[make_extension({"most": 5})]).run_sync("go")
    assert [extension.settings for extension in extensions_again(run)] == [{"most": 5}]
    monkeypatch.delitem(extension_options.OPTIONS, "two-plans")
    assert extensions_again(run) == ()


def test_detect_option_adds_detectors_even_on_recovery() -> None:
    @magic_arguments("agent")
    @extension_options.extension_options
    def cell(line: str) -> None:
        """A cell."""

    (extension,) = chosen_extensions(parse_argstring(cell, "--detect openhands"))
    assert (extension.name, extension.settings) == ("detect", {"preset": "openhands"})
    run = Agent(ScriptedModel(["Done."]), detect="openhands").run_sync("go")
    assert [extension.settings for extension in extensions_again(run)] == [{"preset": "openhands"}]
    with pytest.raises(SettingsError, match="openhands"):
        chosen_extensions(parse_argstring(cell, "--detect openhand"))
