"""The `headrace` command: one file per verb; the only place that wires the parts together."""
