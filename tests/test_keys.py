"""Keys: where they are looked up, and which texts count as secrets.

test_planted_keys.py tests that they are exposed nowhere.
"""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading

import keyring
import pytest
from asserted_sentences import Snapshot
from keyrings import MemoryKeyring

from agentnb import settings
from agentnb.errors import SettingsError

SECRET = "sk-test-0123456789abcdef"
OTHER = "sk-other-fedcba9876543210"


def revealed(name: str) -> str | None:
    key = settings.find_key(name)
    return None if key is None else key.reveal()


# A key


def test_key_repr_shows_its_origin_but_never_the_key() -> None:
    key = settings.Key("ANTHROPIC_API_KEY", SECRET, settings.ENVIRONMENT)
    assert repr(key) == str(key) == f"{key}" == "<key ANTHROPIC_API_KEY from the environment>"
    assert SECRET not in str({"key": key}) and not hasattr(key, "__dict__")
    assert key.reveal() == SECRET


def test_key_cannot_be_pickled_or_copied(subtests: pytest.Subtests) -> None:
    for way in [pickle.dumps, copy.copy, copy.deepcopy]:
        with subtests.test(way.__name__):
            with pytest.raises(TypeError, match="cannot be pickled"):
                way(settings.Key("ANTHROPIC_API_KEY", SECRET, settings.ENVIRONMENT))  # type: ignore[operator]


def test_keys_of_the_same_text_are_equal() -> None:
    first = settings.Key("ANTHROPIC_API_KEY", SECRET, settings.ENVIRONMENT)
    second = settings.Key("ANTHROPIC_API_KEY", SECRET, settings.KERNEL)
    third = settings.Key("ANTHROPIC_API_KEY", OTHER, settings.KERNEL)
    assert {first: 1} == {second: 1}
    assert first != third and first != SECRET
    assert len({first, second, third}) == 2


# Key lookup


def test_stored_key_takes_precedence_over_environment_and_keyring(
    monkeypatch: pytest.MonkeyPatch, memory: MemoryKeyring
) -> None:
    memory.held["agentnb", "ANTHROPIC_API_KEY"] = "from-keyring"
    assert revealed("anthropic") == "from-keyring"
    monkeypatch.setenv("ANTHROPIC_API_KEY", " from-environment\n")
    assert revealed("anthropic") == "from-environment"
    settings.keep_key("anthropic", "from-kernel")
    assert revealed("anthropic") == revealed("ANTHROPIC_API_KEY") == "from-kernel"


def test_key_names_its_origin(monkeypatch: pytest.MonkeyPatch, memory: MemoryKeyring) -> None:
    memory.held["agentnb", "OPENAI_API_KEY"] = SECRET
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    settings.keep_key("OPENROUTER_API_KEY", SECRET)
    found = [settings.find_key(name) for name in ("openai", "anthropic", "OPENROUTER_API_KEY")]
    assert [key.source for key in found if key] == ["the keyring", "the environment", "this kernel"]


def test_keyring_is_queried_once_per_name(memory: MemoryKeyring) -> None:
    for _ in range(3):
        assert settings.find_key("anthropic") is None
        assert settings.find_key("openai-responses") is settings.find_key("openai") is None
    assert memory.asked == ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"]


def test_many_threads_query_the_keyring_once(memory: MemoryKeyring) -> None:
    memory.held["agentnb", "ANTHROPIC_API_KEY"] = SECRET
    together = threading.Barrier(8)

    def look() -> None:
        together.wait()
        assert revealed("anthropic") == SECRET

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert memory.asked == ["ANTHROPIC_API_KEY"]


def test_checking_for_a_key_does_not_query_the_keyring(memory: MemoryKeyring) -> None:
    memory.held["agentnb", "ANTHROPIC_API_KEY"] = SECRET
    assert not settings.has_key("anthropic")
    assert settings.providers_with_key() == []
    assert settings.secrets() == ()
    assert memory.asked == []


def test_failing_keyring_counts_as_having_no_key(locked: None) -> None:
    assert settings.find_key("anthropic") is None


def test_missing_package_means_no_keyring(monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert settings.find_key("anthropic") is None
    with pytest.raises(SettingsError, check=snapshot.worded):
        settings.keep_key("anthropic", SECRET, in_keyring=True)
    assert settings.find_key("anthropic") is None
    assert settings.forget_key("anthropic") == ()


def test_keyring_package_loads_only_to_look_for_a_key() -> None:
    code = "import sys, agentnb.settings as s; s.has_key('anthropic'); print('keyring' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "False"


def test_invalid_key_is_refused_without_repeating_it(monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    for broken in ["sk-one sk-two", "sk-one\nsk-two", "sk-täst-0123456789", "'sk-quoted-0123456789'"]:
        with subtests.test(broken):
            monkeypatch.setenv("ANTHROPIC_API_KEY", broken)
            with pytest.raises(SettingsError, match="ANTHROPIC_API_KEY in the environment is not a key") as found:
                settings.find_key("anthropic")
            with pytest.raises(SettingsError, match="That is not a key for OPENAI_API_KEY") as kept:
                settings.keep_key("openai", broken)
            assert "sk-" not in repr(found.value) + repr(kept.value)
            assert settings.find_key("openai") is None


def test_blank_key_is_not_stored(subtests: pytest.Subtests) -> None:
    for blank in ["", "  \n"]:
        with subtests.test(repr(blank)):
            with pytest.raises(SettingsError, match="it is empty"):
                settings.keep_key("anthropic", blank)
            assert not settings.has_key("anthropic")


def test_whitespace_around_a_key_is_stripped() -> None:
    settings.keep_key("anthropic", f" {SECRET}\n")
    assert revealed("anthropic") == SECRET


# Keeping and forgetting


def test_key_can_also_be_stored_in_the_keyring(memory: MemoryKeyring, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.keep_key("anthropic", SECRET, in_keyring=True)
    assert memory.held == {("agentnb", "ANTHROPIC_API_KEY"): SECRET}
    monkeypatch.setattr(settings, "_held", settings._Held())  # a new kernel
    assert revealed("anthropic") == SECRET


def test_key_is_not_added_to_the_keyring_unasked(memory: MemoryKeyring) -> None:
    settings.keep_key("anthropic", SECRET)
    assert memory.held == {}


def test_forgetting_a_key_reports_where_it_was(memory: MemoryKeyring) -> None:
    assert settings.forget_key("anthropic") == ()
    settings.keep_key("anthropic", SECRET)
    assert settings.forget_key("anthropic") == ("this kernel",)
    settings.keep_key("anthropic", SECRET, in_keyring=True)
    assert settings.forget_key("ANTHROPIC_API_KEY") == ("this kernel", "the keyring")
    assert memory.held == {}
    assert settings.find_key("anthropic") is None


def test_keyring_is_queried_again_after_keeping_or_forgetting(memory: MemoryKeyring) -> None:
    assert settings.find_key("anthropic") is None
    memory.held["agentnb", "ANTHROPIC_API_KEY"] = SECRET
    assert settings.find_key("anthropic") is None
    settings.keep_key("anthropic", OTHER)
    settings._held.kept.clear()
    assert revealed("anthropic") == SECRET
    settings.forget_key("anthropic")
    assert settings.find_key("anthropic") is None


def test_refused_keyring_write_warns_and_kernel_keeps_the_key(locked: None, snapshot: Snapshot) -> None:
    with pytest.raises(SettingsError, check=snapshot.worded) as caught:
        settings.keep_key("anthropic", SECRET, in_keyring=True)
    assert SECRET not in repr(caught.value) and caught.value.__context__ is None
    assert revealed("anthropic") == SECRET


def test_keyring_that_loses_a_key_is_reported() -> None:
    assert type(keyring.get_keyring()).__module__ == "keyring.backends.null"  # shared by all tests
    with pytest.raises(SettingsError, match="could not be read back"):
        settings.keep_key("anthropic", SECRET, in_keyring=True)


# Names


def test_unknown_name_is_refused_with_similar_ones(subtests: pytest.Subtests) -> None:
    for name, advice in [
        ("antropic", "Did you mean anthropic?"),
        ("anthropic_api_key", "Did you mean ANTHROPIC_API_KEY?"),
        ("", "Available: anthropic, openai"),
        ("A", "Available: anthropic, openai"),
        ("1_API_KEY", "Available: anthropic, openai"),
        ("A" * 65, "Available: anthropic, openai"),
    ]:
        with subtests.test(name or "blank"):
            for use in (settings.find_key, settings.forget_key, settings.key_variable):
                with pytest.raises(SettingsError, match="That is not the name of a key") as caught:
                    use(name)
                assert advice in str(caught.value)


def test_key_given_instead_of_its_name_is_not_repeated(subtests: pytest.Subtests) -> None:
    for typed in [SECRET, "sk-ant-api03-Ab_9-zZ", "AKIA0123456789EXAMPLE", "gsk_0123456789abcdefgh"]:
        with subtests.test(typed):
            with pytest.raises(SettingsError) as caught:
                settings.keep_key(typed, OTHER)
            assert typed not in repr(caught.value) and settings.looks_like_a_key(typed)


@pytest.mark.parametrize("name", ["OPENROUTER_API_KEY", "HF_TOKEN", "AZURE_OPENAI_API_KEY_2", "TOKEN"])
def test_any_variable_can_name_a_key(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, SECRET)
    assert revealed(name) == SECRET and settings.has_key(name)
    assert settings.key_names() == list(dict.fromkeys((*settings.KEY_NAMES.values(), name)))


# Secrets


def test_secrets_list_all_known_keys_longest_first(monkeypatch: pytest.MonkeyPatch, memory: MemoryKeyring) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "in-environment")
    monkeypatch.setenv("GATEWAY_API_KEY", "asked-for-in-environment")
    memory.held["agentnb", "OPENAI_API_KEY"] = "in-the-keyring"
    assert settings.secrets() == ("in-environment",)
    settings.keep_key("anthropic", "kept-here")
    settings.find_key("openai")
    settings.find_key("GATEWAY_API_KEY")
    assert settings.secrets()[0] == "asked-for-in-environment" and settings.secrets()[-1] == "kept-here"
    assert set(settings.secrets()[1:3]) == {"in-environment", "in-the-keyring"}


def test_short_text_is_not_a_secret(subtests: pytest.Subtests) -> None:
    for text, secrets in [("1234567", ()), ("12345678", ("12345678",))]:
        with subtests.test(text):
            settings.keep_key("anthropic", text)
            assert settings.secrets() == secrets


def test_forgotten_key_stays_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    settings.keep_key("anthropic", SECRET)
    assert settings.secrets() == (SECRET,)
    settings.forget_key("anthropic")
    monkeypatch.setenv("OPENAI_API_KEY", OTHER)
    assert set(settings.secrets()) == {SECRET, OTHER}
    monkeypatch.delenv("OPENAI_API_KEY")
    assert set(settings.secrets()) == set(settings.known_secrets()) == {SECRET, OTHER}


def test_key_becomes_a_secret_on_creation() -> None:
    assert settings.known_secrets() == ()
    settings.Key("MY_KEY", SECRET, settings.KERNEL)
    settings.Key("MY_KEY", "x", settings.KERNEL)
    assert settings.known_secrets() == (SECRET,)


def test_many_threads_can_create_keys_at_once() -> None:
    texts = [f"key-{number:04d}" for number in range(200)]
    threads = [threading.Thread(target=settings.Key, args=("MY_KEY", text, settings.KERNEL)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(settings.known_secrets()) == texts


def test_secret_that_cannot_be_a_key_is_redacted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-one sk-two")
    assert settings.secrets() == ("sk-one sk-two",)
