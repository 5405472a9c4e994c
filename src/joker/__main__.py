"""``python -m joker`` is the program ``joker``."""

import sys

from joker.cli import main

if __name__ == "__main__":
    sys.exit(main())
