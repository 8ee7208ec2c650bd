"""Keyrings that end with the test: one that holds what it is given, and one that is never opened."""

from __future__ import annotations

from collections.abc import Iterator

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordDeleteError


class MemoryKeyring(KeyringBackend):
    """A keyring that ends with the test."""

    priority = 0.1  # type: ignore[assignment]

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], str] = {}
        self.asked: list[str] = []

    def get_password(self, service: str, username: str) -> str | None:
        self.asked.append(username)
        return self.held.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.held[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if (service, username) not in self.held:
            raise PasswordDeleteError(username)
        del self.held[service, username]


class LockedKeyring(MemoryKeyring):
    """A keyring that stays locked, with an error that says too much."""

    def get_password(self, service: str, username: str) -> str | None:
        raise KeyringLocked("no")

    def set_password(self, service: str, username: str, password: str) -> None:
        raise KeyringLocked(f"{password} not taken")


@pytest.fixture
def memory() -> Iterator[MemoryKeyring]:
    before = keyring.get_keyring()
    backend = MemoryKeyring()
    keyring.set_keyring(backend)
    yield backend
    keyring.set_keyring(before)


@pytest.fixture
def locked(memory: MemoryKeyring) -> None:
    keyring.set_keyring(LockedKeyring())  # taken back by `memory`
