"""Fitted machines in files."""
