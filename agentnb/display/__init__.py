"""A run as people see it: as text, as HTML, as a page. Nothing here depends on IPython."""
