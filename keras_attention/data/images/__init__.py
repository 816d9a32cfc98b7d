"""Labelled images -> batches."""
