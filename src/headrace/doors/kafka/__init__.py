"""The door for Kafka clients."""
