"""``python -m agentnb``: the command line."""

import sys

from agentnb.cli import main

sys.exit(main())
