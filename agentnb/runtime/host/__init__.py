"""The host of a run: its options and services, and the handle for its caller."""
