"""Judging what was served: the demo protocol, its metrics and its report."""
