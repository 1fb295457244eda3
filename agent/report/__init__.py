"""What a node says of itself: its status, heartbeats, and the upkeep of its store."""
