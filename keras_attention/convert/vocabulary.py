"""The vocabulary of a published BERT: vocab.txt with one piece per line."""

from keras_attention.errors import UserError

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MAX_CHARACTERS = 64  # a piece, on average


def read_vocabulary(path, size):
    """Reads the pieces.

    Args:
        path: Path of vocab.txt.
        size: int, vocabulary size of the model.

    Returns:
        List of str.

    Raises:
        UserError: if there are more or fewer, two are equal, or a special token is missing; [PAD] must be the first,
            because id 0 is padding.
    """
    try:
        with open(path, encoding="utf-8") as file:  # not `splitlines`: a piece may be another line separator
            text = file.read(MAX_CHARACTERS * size + 1).removesuffix("\n")
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: {error}") from error
    found = text.count("\n") + 1
    if found != size or len(text) > MAX_CHARACTERS * size:
        raise UserError(f"{path} has {found} pieces. The configuration has vocab_size {size}")
    pieces = text.split("\n")
    check_pieces(path, pieces, size)
    return pieces


def check_pieces(path, pieces, size):
    """Raises UserError unless there are `size` different pieces, the special ones among them and [PAD] first."""
    if len(pieces) != size:
        raise UserError(f"{path} has {len(pieces)} pieces. The configuration has vocab_size {size}")
    if len(set(pieces)) < size:
        seen = set()
        twice = next(piece for piece in pieces if piece in seen or seen.add(piece))
        raise UserError(f"{path} has the piece {twice!r:.80} twice.")
    for token in SPECIAL_TOKENS:
        if token not in pieces:
            raise UserError(f"{path} lacks the special token {token}.")
    if pieces[0] != "[PAD]":
        raise UserError(f"{path} begins with {pieces[0]!r:.80}. Expected [PAD], because id 0 is padding.")


def looks_lowercase(pieces):
    """Whether no piece has a capital letter, except special ones like [CLS]."""
    return not any(piece != piece.lower() for piece in pieces if not (piece.startswith("[") and piece.endswith("]")))
