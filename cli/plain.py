"""Text from outside (ids, titles, reasons, file names, addresses) made harmless for the screen."""

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

REPLACEMENT = "\ufffd"


def printable(text: str) -> str:
    """Return `text` with a replacement character for what would steer the terminal or cannot be written to it."""
    # Controls (escape, newline), the overrides of the writing direction, and halves of a surrogate pair.
    return "".join(
        REPLACEMENT
        if unicodedata.category(each) in ("Cc", "Cs") or unicodedata.bidirectional(each) in ("LRO", "RLO")
        else each
        for each in text
    )


def plain(text: str, style: str = "") -> "Text":
    """Return `text` so that rich shows it as it is: a bracket is a bracket, not markup."""
    from rich.text import Text

    return Text(printable(text), style)
