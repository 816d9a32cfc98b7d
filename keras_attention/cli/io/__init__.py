"""Shared code of the commands: input and output files, progress, resuming."""
