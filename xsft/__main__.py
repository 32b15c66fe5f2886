"""`python -m xsft` is `xsft`."""

import sys

from xsft.cli import main

if __name__ == "__main__":
    sys.exit(main())
