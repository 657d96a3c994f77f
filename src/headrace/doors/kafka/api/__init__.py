"""One file for each API of Kafka, with its versions beside its handler."""
