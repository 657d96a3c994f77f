"""The pytest plugin: a real broker inside a test."""
