"""The live card of a run: its view, its widget and its actions."""
