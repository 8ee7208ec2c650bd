"""The report of an experiment: a document to share, as a page or in Markdown, with its data in a folder next to it."""
