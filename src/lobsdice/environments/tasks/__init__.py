"""The built-in tasks: environments, behaviour policies and data."""
