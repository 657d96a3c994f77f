"""Drivers: a protocol's bytes in, calls on the broker, the protocol's bytes out. A door holds no semantics."""
