"""One file a command; `cli/table.py` lists them."""
