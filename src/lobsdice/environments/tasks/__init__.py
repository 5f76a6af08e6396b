"""The built-in tasks: environments, the policies that their data comes from, and the data."""
