"""``python -m unskew`` is the command line."""

from __future__ import annotations

from unskew.cli import main

if __name__ == "__main__":
    main()
