"""The json door: JSON objects over TCP, one for a connection, or, after a newline, one a line."""
