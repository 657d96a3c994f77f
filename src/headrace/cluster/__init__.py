"""What the cluster agrees on: the metadata log, the image built from it, and the controller deciding what to add."""
