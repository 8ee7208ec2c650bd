"""How people see a run: as text, as HTML, as a page. Nothing here knows of IPython."""
