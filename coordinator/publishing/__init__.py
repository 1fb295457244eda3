"""From the declared state to signed documents in nodes' heads."""
