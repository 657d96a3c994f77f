"""What the doors on plain TCP share: the listener, its connections, their limits and what is counted."""
