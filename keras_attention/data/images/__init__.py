"""Images as sequences of pixels."""
