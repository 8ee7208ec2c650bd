"""A terminal: streams, progress, questions, interrupts."""
