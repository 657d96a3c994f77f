"""The log: segments on disk, a tail in memory, and what makes both safe. Knows no topic, no door and no
thread."""
