"""Lets `python -m cli` be the same as `headrace`."""

from cli.main import main

main()
