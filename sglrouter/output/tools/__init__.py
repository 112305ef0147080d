"""Tool calls in a model's text, one module for each format."""
