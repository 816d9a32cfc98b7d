"""Plain text for masked language models: documents, packed rows, masks."""
