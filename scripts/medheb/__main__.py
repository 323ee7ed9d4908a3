"""``python -m medheb``: what the rules call."""

from medheb.cli import main

main()
