"""The servers that the database is on: which they are, and which of them is worked on."""
