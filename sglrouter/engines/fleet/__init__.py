"""All engines: their state, and which one gets a request."""
