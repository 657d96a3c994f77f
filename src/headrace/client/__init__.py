"""The Python client of any Kafka-compatible broker: an async core (`client`, `producer`, `consumer`, `admin`) with a
sync face (`blocking`). It knows the wire and the records, and nothing of the broker.

Nothing is imported here, so that a program pays only for what it uses; people import `headrace` or `headrace.aio`.
"""
