"""A TCP port that a test names before anybody listens there, and nobody else is given meanwhile."""

import socket


def held_port() -> socket.socket:
    """Bound at 127.0.0.1 and never listening; who listens with SO_REUSEADDR, as servers do, has the port beside it."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held
