"""Headrace: one log, many doors. This line is the only place where the version is written."""

__version__ = "0.1.0"
