"""``python -m tcsis``, the same as ``tcsis``: what torchrun is given to run."""

import sys

from tcsis.app.cli import main

sys.exit(main())
