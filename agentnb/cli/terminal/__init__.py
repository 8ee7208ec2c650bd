"""Terminal: streams, progress, questions, interrupts."""
