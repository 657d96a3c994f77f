"""Queues: groups in which each record belongs to one member, until it is settled."""
