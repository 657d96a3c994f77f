"""One process: settings, wiring, listeners, logs, shutdown. The driver that turns the machines below with real time,
threads and files."""
