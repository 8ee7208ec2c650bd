"""JSON values: schema validation, nesting limits, and integers written as floats."""
