"""The agent's own version, which its heartbeats report."""

VERSION = "0.1.0"
