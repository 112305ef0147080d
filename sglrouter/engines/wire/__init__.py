"""The scheduler's messages: what is written to an engine, and read from it."""
