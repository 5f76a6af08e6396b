"""The equations of the paper and its kin, as functions of values; no networks, no data."""
