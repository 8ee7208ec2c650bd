"""Optional packages, such as those in the extra ``stats``, imported on demand."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from agentnb.advice import Install
from agentnb.errors import SettingsError


def load_extra(module: str, extra: str = "stats", purpose: str = "Comparing variants") -> Any:
    """Import a module that belongs to an extra, such as ``scipy.special``. Raises `SettingsError` if it is missing."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise SettingsError(
            f"{purpose} requires the {package} package", Install(f"agentnb[{extra}]", lead="Install it")
        ) from error
