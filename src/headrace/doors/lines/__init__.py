"""The lines door: text lines over TCP. Anybody with a terminal and `nc` can publish and subscribe."""
