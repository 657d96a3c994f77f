"""`python -m headrace` is `headrace`."""

from __future__ import annotations

import sys

from headrace.cli.main import main

sys.exit(main())
