"""JSON values: checked against a schema, bounded in depth, whole numbers kept whole."""
