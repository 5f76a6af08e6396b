"""`python -m lobsdice.cli`, another name of `python -m lobsdice`."""

import runpy

runpy.run_module("lobsdice", run_name="__main__")
