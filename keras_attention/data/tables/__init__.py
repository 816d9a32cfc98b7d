"""Tables of texts and labels: read, checked, split, batched."""
