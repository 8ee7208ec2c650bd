"""Views of a complete run: live card, saved card, page and text."""
