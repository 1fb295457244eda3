"""Declared resources and what follows from them: kinds, model, views, compiled scopes. Pure."""
