"""The json protocol: JSON objects as requests and replies, one a connection or one a line. Door and client share it."""
