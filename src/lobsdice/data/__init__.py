"""Recordings: read, checked, audited, and prepared for a learner. Nothing here imports JAX."""
