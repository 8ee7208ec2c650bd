"""The file tools in a folder of the test."""

from __future__ import annotations

from pathlib import Path

import pytest
from file_desk import FileDesk


@pytest.fixture
def desk(tmp_path: Path) -> FileDesk:
    """Return the tools with an empty working directory."""
    return FileDesk(tmp_path)
