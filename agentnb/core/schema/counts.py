"""Integers in events, bounded by what a table can hold and checked when a log is decoded."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

LARGEST = 2**63 - 1
"""The largest integer that a table can hold."""
Number: TypeAlias = Annotated[int, Meta(ge=-LARGEST, le=LARGEST)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=LARGEST)]
