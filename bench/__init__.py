"""Programs that measure us beside Apache Kafka, in one interleaved run. `python -m bench --help` says how."""
