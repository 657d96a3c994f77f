"""Backups: copies of a data directory or of topics, made while they are served; and bringing them back.

A backup is a folder. Its `manifest.json` is written last: a folder without one is no backup, whatever else is in it.
"""
