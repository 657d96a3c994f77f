"""WebSockets of the HTTP door: records out, records in, over one connection."""
