"""One run shown whole: the live card, the saved form, the page, the text."""
