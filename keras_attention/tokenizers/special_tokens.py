"""The ids that mean the same in every tokenizer, batch and model."""

PAD_ID = 0
UNKNOWN_ID = 1
START_ID = 2
END_ID = 3
