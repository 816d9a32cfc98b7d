"""Static shapes: every batch has one of few sizes, so that few programs are compiled and none twice."""

SOURCE_LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
BATCH_SIZES = (1, 8, 32)


def source_bucket(length, longest):
    """The padded length of a source: depends on nothing but its own length.

    Args:
        length: int in [1, longest], tokens with END.
        longest: int, the model's maximum.

    Returns:
        int.
    """
    return min(longest, next(size for size in SOURCE_LENGTHS if size >= length))


def answer_limit(source_length, decoding):
    """The largest number of tokens, with END, of the answer to a source.

    Args:
        source_length: int, tokens with END.
        decoding: dict, see `schema.DECODING`.

    Returns:
        int >= 1.
    """
    ratio_limit = int(decoding["length_ratio"] * source_length) + decoding["length_offset"]
    return max(1, min(decoding["max_length"], ratio_limit))


def batches(lengths, longest):
    """Groups sources of one bucket into batches of few sizes; those of like length together, so that they end together.

    Args:
        lengths: list of int, tokens with END of each source.
        longest: int, the model's maximum.

    Yields:
        (positions, batch size, padded length): at most "batch size" positions in `lengths`, longest bucket first: side
            by side, what takes longest should not begin last.
    """
    buckets = {}
    for position, length in enumerate(lengths):
        buckets.setdefault(source_bucket(length, longest), []).append(position)
    for padded in sorted(buckets, reverse=True):
        waiting = sorted(buckets[padded], key=lengths.__getitem__)
        while waiting:
            size = next((size for size in BATCH_SIZES if size >= len(waiting)), BATCH_SIZES[-1])
            yield waiting[:size], size, padded
            waiting = waiting[size:]
