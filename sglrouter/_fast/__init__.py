"""The compiled token path: byte loops, and the one session that moves the bytes."""
