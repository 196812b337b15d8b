"""`python -m ekiden.cli`."""

import os
import sys

# `python -m` looks for modules in the current folder first, which nobody may have trusted.
if sys.path and sys.path[0] in ("", os.getcwd()):
    del sys.path[0]

from ekiden.cli.main import main

sys.exit(main())
