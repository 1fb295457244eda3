"""Whom to ask for documents: coordinators, mirrors, peers, and in which order."""
