"""Engines: the calls of a request, and what they go through."""
