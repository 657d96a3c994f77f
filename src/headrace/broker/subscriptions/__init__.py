"""Records out to plain subscribers: each gets every record of its topics, by itself or by a pattern of names."""
