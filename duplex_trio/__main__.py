"""`python -m duplex_trio` is the command `duplex-trio`."""

import sys

from duplex_trio.cli.main import main

sys.exit(main())
