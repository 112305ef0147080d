"""What clients send: typed, checked, with errors that name the field."""
