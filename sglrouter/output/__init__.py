"""From an engine's messages to text: no I/O, no event loop."""
