"""Reading, checking, auditing and preparing recorded episodes. Nothing here imports JAX."""
