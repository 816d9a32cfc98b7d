"""Scores of translations, classifications and masked language models."""
