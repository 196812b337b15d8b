"""`python -m ekiden.cli`."""

import sys

from ekiden.cli.main import main

sys.exit(main())
