"""``python -m kernelweave_app.cli``."""

import sys

from kernelweave_app.cli import main

sys.exit(main())
