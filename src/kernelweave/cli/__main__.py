"""``python -m kernelweave.cli``."""

import sys

from kernelweave.cli import main

sys.exit(main())
