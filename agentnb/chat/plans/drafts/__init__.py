"""Drafts of plans: what became of them, how the person is asked, what they change, what follows."""
