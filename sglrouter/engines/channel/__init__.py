"""Channels to one engine: HTTP/2 of our own, or grpcio."""
