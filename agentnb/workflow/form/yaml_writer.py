"""Writes plain data as YAML that a person reads and changes."""

from __future__ import annotations

from io import StringIO
from typing import Any


def as_yaml_text(data: Any) -> str:
    """Return the data as YAML, keys in their order."""
    from ruamel.yaml import YAML

    written: Any = StringIO()
    yaml: Any = YAML(typ="safe", pure=True)
    yaml.default_flow_style, yaml.allow_unicode, yaml.sort_base_mapping_type_on_output = False, True, False
    yaml.dump(data, written)
    return str(written.getvalue())
