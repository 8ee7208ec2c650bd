"""The report of an experiment: a document that can be sent, as a page or in Markdown, with its data beside it."""
