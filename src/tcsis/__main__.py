"""``python -m tcsis``, the same as ``tcsis``."""

import sys

from tcsis.app.cli import main

sys.exit(main())
