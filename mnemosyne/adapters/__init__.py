"""What the application needs from the outside, one library behind each door (``domain/ports.py``)."""
