"""The version that commands print and heartbeats report; pyproject.toml and the packages have the same."""

VERSION = "0.1.0"
