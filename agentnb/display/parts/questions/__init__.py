"""Questions to the person as HTML: their subject, the buttons and fields for answering, and forms."""
