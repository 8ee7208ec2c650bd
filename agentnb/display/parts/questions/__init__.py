"""Questions to the person as HTML: what is asked about, the buttons and fields of the answers, forms."""
