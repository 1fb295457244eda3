"""What local callers may ask: the socket, its answers, access, probes, metrics."""
