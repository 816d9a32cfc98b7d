"""Which files of series are read, and how long a series may be; kept apart, because it needs no NumPy."""

TABLES, ARRAYS, UCR = (".csv", ".tsv", ".tab", ".txt"), ".npy", ".ts"
SUFFIXES = (*TABLES, ARRAYS, UCR)
MAX_STEPS, MAX_CHANNELS = 1_000_000, 1_000
