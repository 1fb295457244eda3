"""The version that commands print and heartbeats report; pyproject.toml and the packages have the same."""

VERSION = "0.1.0"

PROTOCOL = 1
"""What passes between a node and its coordinators (protocol.md 1): each head request names it, so that a release which
asks for more is refused by one that serves less before anything has changed.
"""
