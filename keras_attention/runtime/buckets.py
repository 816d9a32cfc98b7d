"""The few lengths and batch sizes to which inputs are padded, so that few programs are compiled."""

from bisect import bisect_left

SOURCE_LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
USUAL_LENGTHS = SOURCE_LENGTHS[:3]  # tokens of a sentence or two
BATCH_SIZES = (1, 8, 32)


def source_bucket(length, longest):
    """The padded length of one source.

    Args:
        length: int in [1, longest], tokens including END.
        longest: int, the model's maximum.

    Returns:
        int.
    """
    longer = 1 << (length - 1).bit_length()  # with sparse attention, a model may read more than the largest of them
    return min(longest, next((size for size in SOURCE_LENGTHS if size >= length), longer))


def answer_limit(source_length, decoding):
    """The maximum number of tokens, including END, of the answer to a source.

    Args:
        source_length: int, tokens including END.
        decoding: dict, see `schema.DECODING`.

    Returns:
        int >= 1.
    """
    ratio_limit = int(decoding["length_ratio"] * source_length) + decoding["length_offset"]
    return max(1, min(decoding["max_length"], ratio_limit))


def batches(lengths, longest):
    """Groups sources of similar length into batches of a few sizes.

    A batch has the padded length of its longest source. If the sources of that length do not fill it, the longest
    remaining sources do.

    Args:
        lengths: list of int, tokens of each source including END.
        longest: int, the model's maximum.

    Yields:
        (positions, batch size, padded length): at most "batch size" positions in `lengths`. Batches of long sources
            come first: if batches run in parallel, a slow one should not start last.
    """
    waiting = sorted(range(len(lengths)), key=lengths.__getitem__)
    buckets = [source_bucket(lengths[position], longest) for position in waiting]
    while waiting:
        padded = buckets[-1]
        same = len(buckets) - bisect_left(buckets, padded)
        size = next((size for size in BATCH_SIZES if size >= same), BATCH_SIZES[-1])
        yield waiting[-size:], size, padded
        del waiting[-size:], buckets[-size:]
