"""Questions to the person: asking them, answering them, and keeping them for the next process. Also lasting permissions."""
