"""Sentence pairs: read from files or named sets, encoded once."""
