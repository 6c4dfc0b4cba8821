"""How an address is shown to people and written into logs."""

import re


def without_credentials(url: str) -> str:
    """Return `url` without user, password and query, each of which may hold a secret; other text stays as it is."""
    # Up to the last @, also across a slash or question mark that should have been escaped: rather too much than a part.
    return re.sub(r"(?:(?<=://)|^(?!.*://)).*@", "", url, flags=re.DOTALL).partition("?")[0]
