"""The binary protocol: frames with a fixed head, properties and a body."""
