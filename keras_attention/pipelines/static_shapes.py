"""Static shapes: every batch has one of few sizes, so that few programs are compiled and none twice."""

from bisect import bisect_left

SOURCE_LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
BATCH_SIZES = (1, 8, 32)


def source_bucket(length, longest):
    """The padded length of a source on its own.

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
    """Groups sources into batches of few sizes; those of like length together, so that they end together.

    A batch has the padded length of its longest source. What it has room for beside the sources of that bucket is
    filled with the longest ones of the next.

    Args:
        lengths: list of int, tokens with END of each source.
        longest: int, the model's maximum.

    Yields:
        (positions, batch size, padded length): at most "batch size" positions in `lengths`, longest bucket first: side
            by side, what takes longest should not begin last.
    """
    waiting = sorted(range(len(lengths)), key=lengths.__getitem__)
    buckets = [source_bucket(lengths[position], longest) for position in waiting]
    while waiting:
        padded = buckets[-1]
        same = len(buckets) - bisect_left(buckets, padded)
        size = next((size for size in BATCH_SIZES if size >= same), BATCH_SIZES[-1])
        yield waiting[-size:], size, padded
        del waiting[-size:], buckets[-size:]
