"""What the cluster agrees on: the metadata log, the image built from it, and the controller that decides what to add."""
