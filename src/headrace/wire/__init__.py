"""Protocols as bytes and values: no socket, no clock, no `await`. Doors, clients and peers share them."""
