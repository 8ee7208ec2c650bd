"""Views of a whole run: live card, saved card, page, text."""
