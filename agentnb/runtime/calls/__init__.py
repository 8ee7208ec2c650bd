"""Tool calls: gates, execution, cancellation and reports."""
