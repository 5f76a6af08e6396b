"""HTML pages about runs and audits: each is one file that needs nothing else and asks no network.

Pages are well-formed XML as well, so that any parser can check them. docs/report.md says how to
read a report.
"""
