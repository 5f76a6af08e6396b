"""The command line: `lobsdice GROUP COMMAND ...`."""

from lobsdice.cli.main import main as main
