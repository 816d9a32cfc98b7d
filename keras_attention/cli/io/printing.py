"""What is shown on a terminal, where a control character in a text of strangers would be a command."""

import json
import sys


def json_text(value, indent=None):
    r"""Returns `value` as JSON in which characters that are not printable are written as "\uXXXX"."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() or sign == "\n" else json.dumps(sign)[1:-1] for sign in text)


def print_json(value, indent=1):
    """Writes `value` to standard output as JSON, see `print_whole`."""
    print_whole(json_text(value, indent))


def print_whole(text):
    """Writes a text and a line break to standard output in one piece: a redirected file is empty or whole."""
    sys.stdout.flush()
    stream, text = getattr(sys.stdout, "buffer", None), f"{text}\n"
    if stream is None:  # replaced by a test or a notebook
        sys.stdout.write(text)
        return
    raw = getattr(stream, "raw", stream)
    content = memoryview(text.encode(sys.stdout.encoding, "backslashreplace"))
    while content:
        content = content[raw.write(content) or 0 :]


def safe(text, keep=""):
    """The text with a blank for each character that is not printable, but for those of `keep`."""
    text = str(text)
    return text if text.isprintable() else "".join(s if s.isprintable() or s in keep else " " for s in text)
