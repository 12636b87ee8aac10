"""``python -m tikhon``: the command."""

from tikhon.cli import main

main()
