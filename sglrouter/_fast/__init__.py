"""The compiled token path: byte loops only, no I/O, no event loop."""
