"""The presets by name."""

from __future__ import annotations

from agentnb.detect.detector import DetectorMaker
from agentnb.detect.presets import coding_agents, default, others
from agentnb.detect.presets.preset import Preset
from agentnb.errors import SettingsError, suggest_names

DEFAULT = "default"
NAIVE = tuple([item.name for item in others.NAIVE])
"""Baselines for every detector."""
_PRESETS = {item.name: item for item in (*default.PRESETS, *coding_agents.PRESETS, *others.PRESETS)}


def names() -> tuple[str, ...]:
    """Return the names of all presets, `default` first."""
    return tuple(_PRESETS)


def describe(name: str) -> Preset:
    """Return a preset with its rules, thresholds and source. Raises `SettingsError` for an unknown name."""
    if name not in _PRESETS:
        raise SettingsError(f"There is no detector preset {name!r}", suggest_names(str(name), _PRESETS))
    return _PRESETS[name]


def preset(name: str) -> tuple[DetectorMaker, ...]:
    """Return the factories of a preset's detectors. Raises `SettingsError` for an unknown name."""
    return describe(name).makers
