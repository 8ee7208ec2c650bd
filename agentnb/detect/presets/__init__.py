"""Detectors by name: our `default`, the rules of other projects, and naive rules for comparison."""

from agentnb.detect.presets.preset import Preset, Source
from agentnb.detect.presets.preset_registry import DEFAULT, describe, names, preset

__all__ = ["DEFAULT", "Preset", "Source", "describe", "names", "preset"]
