"""Figures of tables. Nothing here trains or imports anything that does."""
