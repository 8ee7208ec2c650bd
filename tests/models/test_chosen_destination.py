"""Destinations chosen by a model name from a file, and the person's permission."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

import pytest
from asserted_sentences import Snapshot
from own_folder import use_own_folder

from agentnb import settings
from agentnb.display.texts.notebook_commands import error_in_notebook
from agentnb.errors import MissingKey, SettingsError, UrlNotAllowed
from agentnb.models import RemoteModel
from agentnb.models.destinations import allowed_urls
from agentnb.models.destinations.allowed_urls import FILE, allow_urls, question, remember, with_consent
from agentnb.models.destinations.destination import FileModelName, read_destination
from agentnb.models.registry import check_destinations, check_key, is_usual_or_allowed, make_model, person_chose_destination

KEYS = {"ANTHROPIC_API_KEY": "key-of-anthropic", "OPENAI_API_KEY": "key-of-openai", "MY_KEY": "key-of-mine"}
FAR = "https://far.example"


@pytest.fixture(autouse=True)
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of a person with three keys and no permissions yet."""
    monkeypatch.setattr(allowed_urls, "_allowed_here", set())
    for variable in ("AGENTNB_ALLOW_URLS", *settings.URL_VARIABLES.values()):
        monkeypatch.delenv(variable, raising=False)
    for variable, key in KEYS.items():
        monkeypatch.setenv(variable, key)
    return use_own_folder(monkeypatch, tmp_path / "personal")


def goes_to(name: str) -> tuple[str | None, str]:
    """Return the URL and key variable of a model named by a file."""
    model = make_model(FileModelName(name))
    assert isinstance(model, RemoteModel)
    endpoint = model._endpoint
    return endpoint.url, "" if endpoint.key is None else endpoint.key.name


def refused(name: str) -> list[str]:
    """Return the permission required for a model named by a file."""
    with pytest.raises(UrlNotAllowed) as caught:
        make_model(FileModelName(name))
    return [str(destination) for destination in caught.value.destinations]


def test_file_may_name_standard_servers_and_keyless_local_ones(subtests: pytest.Subtests) -> None:
    for name, expected in {
        "anthropic:m": (None, "ANTHROPIC_API_KEY"),
        "anthropic:m?url=https://api.anthropic.com": ("https://api.anthropic.com", "ANTHROPIC_API_KEY"),
        "openai:m?url=https://api.openai.com:443/v1": ("https://api.openai.com:443/v1", "OPENAI_API_KEY"),
        "openai:m?key=OPENAI_API_KEY": (None, "OPENAI_API_KEY"),
        "ollama:m": ("http://127.0.0.1:11434/v1", ""),
        "compatible:m?url=http://localhost:8000/v1": ("http://localhost:8000/v1", ""),
        "openai:m?url=http://localhost:1234/v1": ("http://localhost:1234/v1", ""),
        "anthropic:m?url=http://127.0.0.1:4000": ("http://127.0.0.1:4000", ""),
    }.items():
        with subtests.test(name):
            assert goes_to(name) == expected


def test_file_cannot_name_other_addresses_or_keys(subtests: pytest.Subtests) -> None:
    for name, missing in {
        f"compatible:m?url={FAR}": FAR,
        f"compatible:m?url={FAR}/v1&key=MY_KEY": f"{FAR}&key=MY_KEY",
        f"anthropic:m?url={FAR}": f"{FAR}&key=ANTHROPIC_API_KEY",
        f"openai:m?url={FAR}&key=NOT_SET": f"{FAR}&key=NOT_SET",
        "anthropic:m?url=http://api.anthropic.com": "http://api.anthropic.com&key=ANTHROPIC_API_KEY",
        "anthropic:m?url=https://api.anthropic.com.evil.example": "https://api.anthropic.com.evil.example&key=ANTHROPIC_API_KEY",
        "openai:m?key=MY_KEY": "https://api.openai.com&key=MY_KEY",
        "openai:m?key=ANTHROPIC_API_KEY": "https://api.openai.com&key=ANTHROPIC_API_KEY",
        "ollama:m?key=MY_KEY": "http://127.0.0.1:11434&key=MY_KEY",
        "compatible:m?url=http://localhost:8000&key=MY_KEY": "http://localhost:8000&key=MY_KEY",
    }.items():
        with subtests.test(name):
            settings._held.asked_for.clear()
            assert refused(name) == [missing]
            assert not settings._held.asked_for, "no key is looked up before the person allows it"


def test_ambiguous_address_is_refused_only_from_a_file() -> None:
    name = "compatible:m?url=http://b\u00fccher.example"
    with pytest.raises(SettingsError, match="ambiguous"):
        make_model(FileModelName(name))
    assert not is_usual_or_allowed(name)
    assert isinstance(make_model(name), RemoteModel)


def test_urls_from_the_environment_count_as_the_persons_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"{FAR}/v1")
    monkeypatch.setenv("OLLAMA_HOST", "far.example:11434")
    assert goes_to("openai:m") == (f"{FAR}/v1", "OPENAI_API_KEY") == goes_to(f"openai:m?url={FAR}/v1")
    assert goes_to("ollama:m?url=http://far.example:11434/v1") == ("http://far.example:11434/v1", "")
    assert refused("openai:m?key=MY_KEY") == [f"{FAR}&key=MY_KEY"]
    assert refused(f"anthropic:m?url={FAR}") == [f"{FAR}&key=ANTHROPIC_API_KEY"]


def test_permission_covers_only_its_address_and_key(
    person: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    def in_environment(text: str) -> None:
        monkeypatch.setenv("AGENTNB_ALLOW_URLS", f"https://other.example,nonsense\n{text}")

    for name, say in {
        "named in Python": lambda text: make_model(f"compatible:m?url={FAR}/other&key=MY_KEY"),
        "allowed": lambda text: allow_urls([text]),
        "in the environment": in_environment,
        "remembered": lambda text: (remember(read_destination(text)), allowed_urls._allowed_here.clear()),
    }.items():
        with subtests.test(name):
            say(f"{FAR}&key=MY_KEY")
            assert goes_to(f"compatible:m?url={FAR}/v1&key=MY_KEY") == (f"{FAR}/v1", "MY_KEY")
            assert goes_to(f"compatible:m?url={FAR}") == (FAR, "")
            assert refused(f"openai:m?url={FAR}") == [f"{FAR}&key=OPENAI_API_KEY"]
            assert refused(f"compatible:m?url={FAR}:8443&key=MY_KEY") == [f"{FAR}:8443&key=MY_KEY"]
            assert refused("compatible:m?url=http://far.example&key=MY_KEY") == ["http://far.example&key=MY_KEY"]
        allowed_urls._allowed_here.clear()
        monkeypatch.delenv("AGENTNB_ALLOW_URLS", raising=False)
        (person / FILE).unlink(missing_ok=True)


def test_key_is_sent_to_a_local_server_if_allowed() -> None:
    allow_urls(["http://localhost:4000&key=ANTHROPIC_API_KEY"])
    assert goes_to("anthropic:m?url=http://localhost:4000") == ("http://localhost:4000", "ANTHROPIC_API_KEY")
    assert goes_to("anthropic:m?url=http://localhost:4001") == ("http://localhost:4001", "")


def test_missing_key_is_reported_after_the_address_is_allowed() -> None:
    allow_urls([f"{FAR}&key=NOT_SET"])
    for make in (make_model, check_key):
        with pytest.raises(MissingKey, match="NOT_SET"):
            make(FileModelName(f"compatible:m?url={FAR}&key=NOT_SET"))


def test_refused_models_are_listed_together_with_the_needed_options(snapshot: Snapshot) -> None:
    names = ["compatible:m?url=https://a.example", f"openai:m?url={FAR}", "simulated:disciplined", "anthropic:m"]
    with pytest.raises(UrlNotAllowed) as caught:
        check_destinations([*map(FileModelName, names), f"compatible:m?url={FAR}", object(), None])
    assert str(caught.value) == snapshot
    typed = "address: --allow-url 'https://a.example' --allow-url 'https://far.example&key=OPENAI_API_KEY'"
    assert error_in_notebook(caught.value).endswith(typed)
    check_destinations([*names, FileModelName("anthropic:m?url=http://localhost:1")])


def test_answer_is_saved_in_a_private_file(person: Path) -> None:
    asked: list[str] = []

    def yes(question: str) -> str:
        asked.append(question)
        return "yes\n"

    names = [FileModelName(f"compatible:m?url={FAR}&key=MY_KEY"), FileModelName("compatible:m?url=https://b.example")]
    with_consent(lambda: check_destinations(names), yes)
    with_consent(lambda: check_destinations(names), None)
    assert (person / FILE).read_text("utf-8").split() == [f"{FAR}&key=MY_KEY", "https://b.example"]
    assert asked == [question(read_destination(f"{FAR}&key=MY_KEY")), question(read_destination("https://b.example"))]
    assert [path.name for path in person.iterdir()] == [FILE]
    if os.name == "posix":
        assert stat.S_IMODE((person / FILE).stat().st_mode) == 0o600
        assert stat.S_IMODE(person.stat().st_mode) == 0o700


def test_declined_or_unanswered_question_raises_the_error(person: Path) -> None:
    name = FileModelName(f"compatible:m?url={FAR}")
    for ask in (None, lambda question: "no\n", lambda question: ""):
        with pytest.raises(UrlNotAllowed):
            with_consent(lambda: make_model(name), ask)
    assert not person.exists()


def test_permission_lasts_for_the_process_if_unsavable(person: Path) -> None:
    person.write_text("a file in its place")
    assert not remember(read_destination(FAR))
    assert goes_to(f"compatible:m?url={FAR}") == (FAR, "")


def test_damaged_permission_line_allows_nothing(person: Path) -> None:
    person.mkdir()
    (person / FILE).write_bytes(b"*\nhttps://*\n\n&key=MY_KEY\nhttps://far.example&key=my\n")
    assert refused(f"compatible:m?url={FAR}") == [FAR]
    (person / FILE).write_bytes(b"\xff\xfe")
    assert refused(f"compatible:m?url={FAR}") == [FAR]


def test_question_shows_the_address_and_the_variable() -> None:
    text = question(read_destination("http://far.example:8000&key=ANTHROPIC_API_KEY"))
    assert "http://far.example:8000" in text and "The key in ANTHROPIC_API_KEY would go there" in text
    assert "No key would go there" in question(read_destination(FAR))


def test_only_destinations_chosen_by_the_person_count_as_theirs(subtests: pytest.Subtests) -> None:
    cases: Iterable[tuple[object, bool]] = (
        (f"compatible:m?url={FAR}", True),
        ("anthropic:m?key=MY_KEY", True),
        ("anthropic:m?price=3/15", True),
        ("anthropic:m?effort=high", False),
        ("anthropic:m", False),
        ("simulated:disciplined", False),
        (FileModelName(f"compatible:m?url={FAR}"), False),
        (object(), False),
    )
    for model, expected in cases:
        with subtests.test(model=model):
            assert person_chose_destination(model) is expected


def test_allowed_urls_must_be_a_list(subtests: pytest.Subtests) -> None:
    for given in (FAR, ["nonsense"], [FAR, "nonsense"]):
        with subtests.test(given=given), pytest.raises(SettingsError):
            allow_urls(given)
    assert not allowed_urls._allowed_here
