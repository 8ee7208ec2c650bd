"""For everything pytest runs here, notebooks included: no home directory, no keys, browser tests only with ``--browser``."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from asserted_sentences import RENEW, Sentences, Snapshot
from hypothesis import HealthCheck
from hypothesis import settings as property_settings
from missing_parts import LACKS, missing_line
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from agentnb import settings

SDK_VARIABLES = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE", "ANTHROPIC_CUSTOM_HEADERS", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID")
"""What the SDKs read on their own."""
KEYS = ("AGENTNB_MODEL", *settings.KEY_NAMES.values(), *settings.URL_VARIABLES.values(), *SDK_VARIABLES)
HOMES = (
    "HOME",
    "USERPROFILE",
    "XDG_DATA_HOME",
    "XDG_CONFIG_HOME",
    "IPYTHONDIR",
    "JUPYTER_CONFIG_DIR",
    "JUPYTER_RUNTIME_DIR",
    "MPLCONFIGDIR",
)
SLOWEST_FIRST = (
    "tests/browser",
    "notebooks",
    "tests/notebook",
    "tests/test_planted_keys.py",
    "tests/test_public_names.py",
    "tests/test_docs_readme.py",
    "tests/session",
    "tests/workflow",
    "tests/cli",
    "tests/rerun",
    "tests/architecture",
    "tests/models",
    "tests/display",
    "tests/tables",
    "tests/store",
    "tests/interchange",
    "tests/plots",
    "tests/agent",
    "tests/runtime",
)
"""The order in which workers take files: what takes long is not begun last, when nothing is left for the other worker."""

gc.disable()  # until all tests are imported: else to look through them again and again takes a third of that time
PROFILE = {"deadline": None, "database": None, "print_blob": True, "suppress_health_check": [HealthCheck.too_slow]}
property_settings.register_profile("quick", max_examples=20, derandomize=True, **PROFILE)
property_settings.register_profile("nightly", max_examples=100, **PROFILE)
property_settings.load_profile("quick")
"""Property tests: the same 20 examples in every run, so that a change lands or not for what it is; ``make nightly`` draws new
and more ones, with ``--hypothesis-profile nightly``. See `tests/property_settings.py`.
"""

TOGETHER = ("tests/browser", "tests/architecture")
"""Folders whose tests share what takes seconds to start: a JupyterLab with its page, the syntax trees of the package."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The browser is asked for: it is slow and not everywhere."""
    parser.addoption("--browser", action="store_true", help="also run the tests that need a browser")
    parser.addoption(RENEW, action="store_true", help="write the sentences of these tests anew (sentences.toml of each room)")


def pytest_configure(config: pytest.Config) -> None:
    """Kernels and other processes of the tests inherit this."""
    home = tempfile.mkdtemp(prefix="agentnb-home-")
    atexit.register(_remove, home, os.getpid())  # after what is registered later: IPython writes its history then
    for name in HOMES:
        os.environ[name] = str(Path(home) / name.lower())
        Path(os.environ[name]).mkdir()
    for name in KEYS:
        os.environ.pop(name, None)
    os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"  # no test asks this machine's
    config.pluginmanager.register(Sentences(config), "sentences")


@pytest.fixture
def snapshot(request: pytest.FixtureRequest) -> Snapshot:
    """Texts of this test as the room's ``sentences.toml`` has them: ``assert str(error) == snapshot``."""
    sentences = request.config.pluginmanager.get_plugin("sentences")
    return Snapshot(sentences, request.path, request.node.originalname)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out, and say so, browser tests unless asked for, and those of the night; what takes long comes first."""
    left_out = [] if config.getoption("--browser") else [item for item in items if item.get_closest_marker("browser")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    if property_settings.get_current_profile_name() != "nightly":
        for item in items:
            if (marker := item.get_closest_marker("nightly")) is not None:
                item.add_marker(pytest.mark.skip(reason=f"make nightly runs it: {marker.args[0]}"))
    if hasattr(config, "workerinput"):  # one of several processes
        items.sort(key=lambda item: _turn(item.path.relative_to(config.rootpath).as_posix()))


def pytest_collection_finish() -> None:
    """Set aside what importing all tests has made: else collections go through it: 917 tests take 49 CPU seconds, not 37."""
    gc.freeze()
    gc.enable()
    atexit.register(gc.unfreeze)  # libraries written in C++ would report what is never freed


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """Give a worker whole files or whole folders of `TOGETHER`."""
    scheduling = LoadFileScheduling(config, log)
    scheduling._split_scope = _unit  # type: ignore[method-assign]  # its documentation says to override it
    return scheduling


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Set aside what each file has left, too, once its garbage is gone: to collect stays cheap however many tests have run."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Iterator[None]:
    """Note which part of the machine a skipped test lacks."""
    report = yield
    if call.excinfo is not None and hasattr(call.excinfo.value, "part"):
        report.user_properties.append((LACKS, call.excinfo.value.part))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line what was skipped for lack of what, and how to install it."""
    skipped = terminalreporter.stats.get("skipped", ())
    if line := missing_line(value for report in skipped for name, value in report.user_properties if name == LACKS):
        terminalreporter.write_line(line)


def _unit(test: str) -> str:
    file = test.partition("::")[0]
    return next((folder for folder in TOGETHER if file.startswith(f"{folder}/")), file)


def _remove(home: str, process: int) -> None:
    if os.getpid() == process:  # a child that was forked ends, too
        shutil.rmtree(home, ignore_errors=True)


def _turn(path: str) -> int:
    return next((turn for turn, folder in enumerate(SLOWEST_FIRST) if f"{path}/".startswith(f"{folder}/")), len(SLOWEST_FIRST))
