"""What the running daemon shares and keeps up: context, maintenance, reminders, metrics."""
