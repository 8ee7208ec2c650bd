"""The graph of a workflow: its layout, as SVG and as text."""
