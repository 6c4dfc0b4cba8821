"""Supervises the embedded parts alone; started by `stack.control.up`, which hands it the configuration."""

import sys

from runtime.config import load_config
from runtime.errors import HeadraceError
from stack.embedded import supervise_parts

try:
    supervise_parts(load_config())
except HeadraceError as error:
    sys.exit(f"error: {error}")
