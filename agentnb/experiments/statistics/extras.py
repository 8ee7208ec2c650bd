"""Packages of the extra ``stats``, imported when a statistic needs them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from agentnb.advice import Install
from agentnb.errors import SettingsError


def load_extra(module: str) -> Any:
    """Import a module of the extra ``stats``, such as ``scipy.special``. Raises `SettingsError` if it is missing."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise SettingsError(
            f"To compare variants needs the package {package}", Install("agentnb[stats]", lead="Install it")
        ) from error
