"""``python -m tcsis.cli``, the same as ``tcsis``."""

import sys

from tcsis.cli import main

sys.exit(main())
