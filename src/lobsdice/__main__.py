"""`python -m lobsdice`, for systems without the `lobsdice` script on the path."""

import sys

if not sys.flags.safe_path:
    # With -m Python searches the current folder first. The `lobsdice` script does not, so that no
    # file in there, such as a `queue.py` from a stranger, is taken for a module and executed.
    del sys.path[0]

from lobsdice.cli import main

sys.exit(main())
