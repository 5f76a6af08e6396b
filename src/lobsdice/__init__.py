"""Offline learning from observation: state-only demonstrations and action-labelled logs in, a policy out."""

__version__ = "0.1.0"
