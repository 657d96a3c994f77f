"""Kafka's protocol. Produce and Fetch, where the records are, and what every client asks first are written by
hand; the rest is read and written by Kafka's own schemas (`messages`).
"""
