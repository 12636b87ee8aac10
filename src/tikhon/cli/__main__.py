"""``python -m tikhon.cli``."""

from tikhon.cli import main

if __name__ == "__main__":
    main()
