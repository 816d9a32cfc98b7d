"""The ids that mean the same in every tokenizer, batch and model."""

PAD_ID = 0
UNKNOWN_ID = 1
START_ID = 2
END_ID = 3

SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")  # how they are shown, by id; such text in the input is mere text
