"""After training: one HTML page that says what was learned from what, and how well.

docs/report.md tells how to read it.
"""
