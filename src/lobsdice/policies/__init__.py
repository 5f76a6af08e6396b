"""Policies that act with NumPy alone, and their exports."""
