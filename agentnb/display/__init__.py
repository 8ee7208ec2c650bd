"""Shows a run as text, as HTML and as a page. Independent of IPython."""
