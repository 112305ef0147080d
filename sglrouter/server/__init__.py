"""What makes gunicorn serve the router well: its worker, and what workers need of each other."""
