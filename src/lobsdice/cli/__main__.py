"""`python -m lobsdice.cli`, for where the `lobsdice` script is not on the path."""

import sys

from lobsdice.cli import main

sys.exit(main())
