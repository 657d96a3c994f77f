"""Consumer groups: members and generations (group.py), positions (positions.py), who keeps both (coordinator.py)."""
