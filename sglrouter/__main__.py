"""`python -m sglrouter` is the `sglrouter` command."""

import sys

from sglrouter.cli import main

sys.exit(main())
