"""Plain text for masked language models: documents, packed sequences, masks."""
