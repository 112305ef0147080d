"""What a request may ask for: checked before anything is sent."""
