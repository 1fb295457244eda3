"""What an operator has written down: agent.toml, credentials, names of units, patterns of scopes."""
