"""What several commands share: files in, files out, progress, resume."""
