"""Load this machine's certificates once: that is most of the cost of a provider client."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import Any

import httpcore2
import pytest


@pytest.fixture(scope="session", autouse=True)
def certificates_read_once() -> Iterator[None]:
    original = httpcore2.default_ssl_context

    @cache
    def read(trusted: bool, *named: str | None) -> Any:
        return original(_trust_env=trusted)

    def default_ssl_context(*, _trust_env: bool = True) -> Any:
        return read(_trust_env, *(os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpcore2, "default_ssl_context", default_ssl_context)
        yield
