"""The binary door: frames of properties and a body."""
