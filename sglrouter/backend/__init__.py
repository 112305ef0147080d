"""Engines: channels, the scheduler's messages, which engine gets a request."""
