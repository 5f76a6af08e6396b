"""Offline learning from observation: demonstrations and labelled logs in, a policy out."""

__version__ = "0.1.0"
