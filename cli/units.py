"""Durations and sizes, short enough for a table."""


def age(milliseconds: int) -> str:
    """Write a duration in the largest unit of which it has two or more: 0 s, 119 s, 5 min, 47 h, 2 d."""
    seconds = max(0, milliseconds // 1_000)
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def size(count: int) -> str:
    """Write a number of bytes in its largest unit: 512 B, 31 kB, 2.4 MB."""
    if count < 1_000:
        return f"{count} B"
    return f"{count / 1e3:.0f} kB" if count < 1_000_000 else f"{count / 1e6:,.1f} MB"
