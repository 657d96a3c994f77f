"""The msgpack protocol, sans-IO: commands of clients (commands.py), deliveries to them (deliveries.py).

Values stand back to back, with nothing between them. A client sends maps of one entry, the name of a command and its
fields; the broker sends pairs of topic and value, and nothing else: no answers, no errors.
"""
