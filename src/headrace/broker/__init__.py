"""Semantics: topics, producing, reading. Knows no socket, no thread and no clock of its own; stands on cluster/ and
log/."""
