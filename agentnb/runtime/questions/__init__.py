"""Questions to the person: asked, answered, kept for the next process; permissions that last."""
