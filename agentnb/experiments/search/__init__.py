"""Searches for better guidance: proposals are tried on some tasks, and the best is judged once on tasks that the search never
saw.
"""
