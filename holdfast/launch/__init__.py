"""How a program is given its settings and its secrets, before it runs."""
