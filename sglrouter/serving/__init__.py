"""From a client's request to an engine's answer, whatever brought it: HTTP or the library."""
