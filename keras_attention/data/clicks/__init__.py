"""What users clicked or rated: reading, generating, and batches of histories with a target item."""
