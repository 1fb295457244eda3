"""What this node answers other nodes, over mutual TLS."""
