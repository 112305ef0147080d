"""The HTTP side: Falcon resources and what they share."""
