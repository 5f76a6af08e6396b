"""The paper's experiments: each makes a table, and figures of the table."""
