"""Fitted machines in files: how they are written and read."""
