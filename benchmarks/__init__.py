"""Benchmarks: each prints machine, seed, sizes and ratios against something run beside it."""
