"""The log of a run: kinds of events, serialization, earlier schemas, and validation of a complete log."""
