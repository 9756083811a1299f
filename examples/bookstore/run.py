#!/usr/bin/env python3
"""Installs missing requirements, then runs the comparison: `examples/bookstore/run.py --help`.

This part needs Python's own library only. It becomes `compare.py` in the virtual environment.
"""

import os
import sys
from pathlib import Path

import install
import options


def main():
    """Exits with 3 where a requirement is missing, and otherwise with the comparison's status."""
    chosen = options.parse()
    try:
        larder, python = install.everything(chosen)
    except install.Missing as missing:
        print(f"bookstore: {missing}", file=sys.stderr)
        sys.exit(3)
    except KeyboardInterrupt:
        sys.exit(130)
    compare = Path(__file__).with_name("compare.py")
    command = [python, compare, *sys.argv[1:], "--larder", larder]
    os.execv(python, [str(word) for word in command])


if __name__ == "__main__":
    main()
