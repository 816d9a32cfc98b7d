"""Pipelines that write a text about a file."""
