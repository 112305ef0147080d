"""The engine's wire schema: generated from proto/, in a private descriptor pool."""
