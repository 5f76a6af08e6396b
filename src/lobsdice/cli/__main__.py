"""`python -m lobsdice.cli`, for systems without the `lobsdice` script on the path."""

import sys

from lobsdice.cli import main

sys.exit(main())
