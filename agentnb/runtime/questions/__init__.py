"""Questions to the person: asking, answering, keeping them for the next process; lasting permissions."""
