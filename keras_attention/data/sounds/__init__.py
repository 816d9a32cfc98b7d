"""Recordings -> spectrograms and their statistics."""
