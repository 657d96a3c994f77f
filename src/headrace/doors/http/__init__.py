"""The HTTP door: publish, poll, stream and administer; health, readiness and metrics."""
