"""The paper's experiments: each writes a table, and figures of the table."""
