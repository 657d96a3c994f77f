"""The door for msgpack publishers and subscribers: at most once, by patterns, in memory unless a topic is on disk."""
