"""The HTTP door: health, readiness and metrics."""
