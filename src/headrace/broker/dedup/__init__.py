"""Deduplication by id: of the records with one id that come within a topic's window, the first is kept."""
