"""Environments: rollouts, evaluation, videos, and the built-in tasks."""
