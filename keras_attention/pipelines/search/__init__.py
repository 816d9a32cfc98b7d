"""Searches for the translations of sentences: their batches, and answers that keep numbers, names and tags."""
