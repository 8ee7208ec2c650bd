"""Report of an experiment: a document to share, as a page or in Markdown, with its data beside it."""
