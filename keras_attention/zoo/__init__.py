"""Trained models: archive (write, read, verify), finding them by name, and the pipeline from text to text."""
