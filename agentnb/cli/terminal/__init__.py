"""The terminal: streams, progress, questions and interrupts."""
