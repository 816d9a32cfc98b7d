"""How a token is chosen: which are allowed, the most probable ones, and draws after temperature, top-k and top-p.

The random numbers are the same on every backend. `token_loop` has greedy search and sampling.
"""

from keras import ops

from keras_attention.support.moved import moved_name


def most_probable(logits, index):
    """The token with the highest logit (B, V) of each sentence, int32 (B,)."""
    return top_tokens(logits, 1)[1][:, 0]


def sampler(seed, batch_size, sentence_keys=None, temperature=1.0, top_k=0, top_p=1.0):
    """Returns a function (allowed logits (B, V), step index) -> sampled tokens, int32 (B,); see `sample`."""
    _check(temperature, top_k, top_p)
    sentence_keys = (
        ops.arange(batch_size, dtype="int32")
        if sentence_keys is None
        else ops.convert_to_tensor(sentence_keys, "int32")
    )

    def choose(logits, index):
        logits = soften(logits, temperature)  # (B, V)
        ids = None
        if 0 < top_k < logits.shape[-1]:
            logits, ids = ops.top_k(logits, top_k)  # (B, top_k)
        if top_p < 1:
            logits = keep_nucleus(logits, top_p)
        drawn = draw(logits, uniform(seed, sentence_keys, index))  # (B,)
        if ids is not None:
            drawn = ops.take_along_axis(ids, drawn[:, None], axis=-1)[:, 0]
        return ops.cast(drawn, "int32")

    return choose


def _check(temperature, top_k, top_p):
    if not 0 < temperature <= LARGEST:
        raise ValueError(
            f"`temperature` must be greater than 0 and at most {LARGEST:g}. Received: temperature={temperature}"
        )
    if top_k < 0:
        raise ValueError(f"`top_k` must be at least 0. Received: top_k={top_k}")
    if not 0 < top_p <= 1:
        raise ValueError(f"`top_p` must lie in (0, 1]. Received: top_p={top_p}")


def draw_within(logits, uniforms, kept, top_k, top_p):
    """Samples as `sampler` does, but `top_k` and `top_p` are tensors: one compiled program serves many values.

    Args:
        logits: tensor (B, V), see `soften`.
        uniforms: tensor (B,), in [0, 1).
        kept: int in [0, V], the static upper bound of `top_k`. 0 keeps all tokens and ignores `top_k`.
        top_k: int scalar tensor in [1, kept].
        top_p: float scalar tensor in (0, 1].

    Returns:
        int32 tokens (B,).
    """
    ids = None
    if kept:
        logits, ids = ops.top_k(logits, kept)  # (B, kept)
        logits = ops.where(ops.arange(kept, dtype="int32") < top_k, logits, -float("inf"))
    logits = ops.cond(top_p < 1, lambda: keep_nucleus(logits, top_p), lambda: logits)
    drawn = draw(logits, uniforms)
    return ops.cast(drawn if ids is None else ops.take_along_axis(ids, drawn[:, None], axis=-1)[:, 0], "int32")


def soften(logits, temperature):
    """Divides logits (B, V) by a temperature (float or scalar tensor), and shifts them so that the largest is 0.

    The shift keeps all but forbidden tokens from becoming NaN. Temperatures near 0 leave only the most probable tokens.
    """
    temperature = ops.clip(ops.convert_to_tensor(temperature, "float32"), SMALLEST, LARGEST)
    return (logits - ops.max(logits, axis=-1, keepdims=True)) / temperature


def draw(logits, uniforms):
    """Returns the int32 index (B,) at which the running sum of softmax(logits (B, C)) passes `uniforms` (B,)."""
    weights = ops.exp(logits - ops.max(logits, axis=-1, keepdims=True))  # (B, C)
    sums = ops.cumsum(weights, axis=-1)
    # Due to rounding, a running sum may rise where the weight is 0, and the target may reach the whole sum.
    possible = weights > 0
    passed = ops.logical_and(possible, sums > uniforms[:, None] * sums[:, -1:])
    indices = ops.arange(logits.shape[-1], dtype="int32")
    first_passed = ops.min(ops.where(passed, indices, logits.shape[-1]), axis=-1)
    return ops.minimum(first_passed, ops.max(ops.where(possible, indices, 0), axis=-1))


HALVINGS = 32
LOWEST = -104.0  # exp(-104) is 0 in float32
SMALLEST, LARGEST = 1e-37, 3e38  # within the range of float32, whose smaller numbers count as 0


def keep_nucleus(logits, top_p):
    """Returns the logits (B, C), with -infinity outside the smallest set of most probable tokens that reaches `top_p`.

    The threshold is found by bisection: on a CPU, XLA needs a millisecond per sentence to sort 8,000 logits.
    """
    top_p = ops.maximum(ops.convert_to_tensor(top_p, "float32"), SMALLEST)
    logits = logits - ops.max(logits, axis=-1, keepdims=True)  # at most 0
    probabilities = ops.softmax(logits, axis=-1)  # (B, C)

    def halve(_, interval):
        enough, too_high = interval  # (B, 1): the tokens above `enough` reach top_p, those above `too_high` do not
        middle = (enough + too_high) / 2
        reached = ops.sum(ops.where(logits >= middle, probabilities, 0.0), axis=-1, keepdims=True) >= top_p
        return ops.where(reached, middle, enough), ops.where(reached, too_high, middle)

    zeros = ops.zeros_like(logits[:, :1])
    enough, _ = ops.fori_loop(0, HALVINGS, halve, (zeros + LOWEST, zeros + 1.0))
    return ops.where(logits >= enough, logits, -float("inf"))


ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA


def uniform(seed, sentence_keys, index):
    """Returns one float32 in [0, 1) for each of `sentence_keys` (int (B,)) at step `index`, a multiple of 2**-24."""
    key = (ops.broadcast_to(_word(seed), sentence_keys.shape), ops.cast(sentence_keys, "uint32"))
    counter = (ops.broadcast_to(_word(index), sentence_keys.shape), ops.zeros(sentence_keys.shape, "uint32"))
    word, _ = threefry_2x32(key, counter)
    return ops.cast(ops.bitwise_right_shift(word, _word(8)), "float32") * 2.0**-24  # (B,)


def threefry_2x32(key, counter):
    """Returns two random words for a key and a counter of two words each, by 20 rounds of Threefry.

    With `keras.random`, which draws one stream per tensor, a sentence's numbers would depend on the batch size.

    Args:
        key: pair of uint32 tensors.
        counter: pair of uint32 tensors that broadcast with the key.

    Returns:
        Pair of uint32 tensors.

    Source: Salmon et al. (2011), Parallel Random Numbers: As Easy as 1, 2, 3, section 3.2,
    https://doi.org/10.1145/2063384.2063405. No differences.
    """
    keys = [*key, ops.bitwise_xor(ops.bitwise_xor(*key), _word(PARITY))]
    left, right = counter[0] + keys[0], counter[1] + keys[1]
    for group in range(5):
        for distance in ROTATIONS[group % 2]:
            left = left + right
            right = ops.bitwise_xor(_rotate_left(right, distance), left)
        left = left + keys[(group + 1) % 3]
        right = right + keys[(group + 2) % 3] + _word(group + 1)
    return left, right


def _word(value):
    """Returns the lowest 32 bits of an int or an integer tensor as uint32."""
    if isinstance(value, int):
        return ops.convert_to_tensor(value % 2**32, "uint32")
    return ops.cast(value, "uint32")


def _rotate_left(word, distance):
    high = ops.bitwise_left_shift(word, _word(distance))
    return ops.bitwise_or(high, ops.bitwise_right_shift(word, _word(32 - distance)))


def length_limits(batch_size, max_length, min_length, max_steps):
    """Checks the lengths and returns (the static number of steps, the int32 limit of each sentence (B,)).

    Lengths count END. `max_length` is an int >= 1, or an int tensor (B,) with one limit per sentence; then `max_steps`
    (int) is the static upper bound of the limits. A limit of 0 gives an empty hypothesis, for examples that only fill
    up the batch. If a limit is below `min_length`, the limit takes precedence.
    """
    if isinstance(max_length, int):
        if max_length < 1:
            raise ValueError(f"`max_length` must be at least 1 token. Received: max_length={max_length}")
        max_steps = max_length if max_steps is None else min(max_length, max_steps)
    elif max_steps is None:
        raise ValueError(
            f"`max_steps` (int) is needed with one `max_length` per sentence. Received: max_length={max_length}"
        )
    if max_steps < 1:
        raise ValueError(f"`max_steps` must be at least 1 token. Received: max_steps={max_steps}")
    if not 0 <= min_length <= max_steps:
        raise ValueError(
            f"`min_length` must lie between 0 and the maximum length. Received: min_length={min_length}, "
            f"max_length={max_steps}"
        )
    limits = ops.broadcast_to(ops.cast(max_length, "int32"), (batch_size,))
    return max_steps, ops.clip(limits, 0, max_steps)


def forbidden_ids(start_id, end_id, pad_id, unknown_id):
    """Checks the special ids and returns the ids that are never generated: START, PAD and, if given, UNKNOWN."""
    if end_id in (start_id, pad_id):
        raise ValueError(
            "`end_id` must differ from `start_id` and `pad_id`. "
            f"Received: start_id={start_id}, end_id={end_id}, pad_id={pad_id}"
        )
    if unknown_id is not None and unknown_id == end_id:
        raise ValueError(f"`unknown_id` must differ from `end_id`. Received: unknown_id={unknown_id}, end_id={end_id}")
    return [start_id, pad_id] if unknown_id is None else [start_id, pad_id, unknown_id]


def allowed_logits(logits, never):
    """Returns finite logits (..., V), but -infinity at each of `never` (list of int), so no choice is forbidden.

    NaN and -infinity, which a damaged network may give for all tokens, become the lowest number.
    """
    finite = ops.where(ops.isnan(logits), -LARGEST, ops.clip(logits, -LARGEST, LARGEST))
    return forbid(finite, never)


def forbid(logits, ids, condition=True):
    """Returns the logits (..., V), -infinity at each of `ids` (list of int) if `condition` (scalar bool) holds."""
    hit = _is_one_of(ops.arange(logits.shape[-1], dtype="int32"), ids)  # (V,)
    return ops.where(ops.logical_and(hit, condition), -float("inf"), logits)


def _is_one_of(indices, ids):
    """Whether each of some indices (int32, at least 0) is in `ids`, a list of int: bool, in the shape of `indices`."""
    hit = indices < 0
    for one in ids:
        hit = ops.logical_or(hit, ops.equal(indices, one))
    return hit


BLOCKS = 256
MANY = 16
TAKEN = 2**31 - 1


def top_tokens(values, count, never=()):
    """Returns (the `count` largest entries, their int32 indices), both (R, count), largest first, ties by index.

    On a CPU, XLA's own top-k and argmax walk through the logits one by one, while a maximum uses vector instructions. A
    long list is therefore cut into blocks: the `count` largest entries lie in the `count` blocks of largest maximum,
    and only these are searched. So a long list is read only once, and never written.

    Args:
        values: float32 tensor (R, C).
        count: int in [1, C].
        never: list of int, indices of entries that count as -infinity.
    """
    lists, columns = values.shape
    if count > MANY:
        top, indices = ops.top_k(forbid(values, never), count)
        return top, ops.cast(indices, "int32")
    if columns < 4 * BLOCKS:
        return _take_largest(forbid(values, never), ops.arange(columns, dtype="int32"), count, columns - 1)
    size = -(-columns // BLOCKS)
    full = columns // size
    maxima = ops.max(ops.reshape(values[:, : full * size], (lists, full, size)), axis=-1)
    if full * size < columns:
        maxima = ops.concatenate([maxima, ops.max(values[:, full * size :], axis=-1, keepdims=True)], axis=-1)
    numbers = ops.arange(maxima.shape[1], dtype="int32")
    for number in sorted({index // size for index in never}):
        start = number * size
        allowed = forbid(values[:, start : start + size], [index - start for index in never])
        maxima = ops.where(numbers == number, ops.max(allowed, axis=-1, keepdims=True), maxima)
    _, blocks = _take_largest(maxima, numbers, count, maxima.shape[1] - 1)  # (R, count)
    indices = blocks[:, :, None] * size + ops.arange(size, dtype="int32")  # (R, count, size)
    indices = ops.reshape(indices, (lists, count * size))
    candidates = ops.take_along_axis(values, ops.minimum(indices, columns - 1), axis=-1)
    excluded = ops.logical_or(indices >= columns, _is_one_of(indices, never))
    return _take_largest(ops.where(excluded, -float("inf"), candidates), indices, count, columns - 1)


def _take_largest(values, indices, count, last):
    """Returns the `count` largest entries of values (R, C) and their indices, given as (R, C) or (C,).

    Ties go to the lowest index. No returned index is larger than `last`, not even if all values are NaN.
    """
    top, top_indices = [], []
    for _ in range(count):
        largest = ops.max(values, axis=-1, keepdims=True)  # (R, 1)
        index = ops.min(ops.where(values == largest, indices, TAKEN), axis=-1, keepdims=True)  # (R, 1)
        top.append(largest)
        top_indices.append(index)
        this = indices == index
        values, indices = ops.where(this, -float("inf"), values), ops.where(this, TAKEN, indices)
    return ops.concatenate(top, axis=-1), ops.minimum(ops.concatenate(top_indices, axis=-1), last)


def __getattr__(name):
    return moved_name(__name__, name)
