"""Searches for better guidance: proposals are tried on some tasks, and the best is judged once, on unseen tasks."""
