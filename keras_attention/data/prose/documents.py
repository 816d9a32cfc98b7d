"""Documents for language models: text files, or the docstrings of Python's standard library."""

import ast
import inspect
import re
import sysconfig
from pathlib import Path

from keras_attention.data.translation.parallel_text import read_lines
from keras_attention.errors import UserError

# Parts of the standard library whose docstrings are tests or not prose.
LEFT_OUT = ("test", "tests", "idlelib", "lib2to3", "site-packages", "dist-packages", "__pycache__", "encodings")
SHORTEST = 40  # minimum characters of a docstring
END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[.!?][\"')])\s+")


def read_documents(paths):
    """Reads texts from UTF-8 files; names ending with .gz or .xz are decompressed.

    Blank lines separate the documents of a file. In a file without blank lines, each line is a document.

    Args:
        paths: list of str or Path.

    Returns:
        List of str, none of them blank.

    Raises:
        UserError: if a file cannot be read, or all files are blank.
    """
    documents = []
    for path in paths:
        lines = [line.strip() for line in read_lines(path)]
        whole = "" in lines[:-1]
        parts = "\n".join(lines).split("\n\n") if whole else lines
        documents += [" ".join(part.split("\n")).strip() for part in parts]
    documents = [document for document in documents if document]
    if not documents:
        raise UserError(
            f"{', '.join(map(str, paths))}: found no text. Expected: prose, with blank lines between documents."
        )
    return documents


def sentences(document):
    """The sentences of a text, split after a full stop, exclamation mark or question mark that a space follows."""
    return [sentence for sentence in END_OF_SENTENCE.split(document) if sentence]


def hold_out(documents, share):
    """Splits documents into training and validation; every n-th document is for validation."""
    every = max(2, round(1 / share))
    return [text for i, text in enumerate(documents) if i % every], documents[::every]


def docstrings(folder=None, most_files=None):
    """The docstrings of the Python standard library: about 1.5 million characters of English.

    Args:
        folder: str or Path, or None for that of the running Python.
        most_files: int or None, maximum number of files to read.

    Returns:
        List of different str, in the order of the file names.

    Raises:
        UserError: if no docstring is found.
    """
    folder = Path(folder or sysconfig.get_paths()["stdlib"])
    paths = [path for path in sorted(folder.rglob("*.py")) if not set(path.relative_to(folder).parts) & set(LEFT_OUT)]
    found = {}
    for path in paths[:most_files]:
        found |= dict.fromkeys(_docstrings_of(path))
    if not found:
        raise UserError(f"{folder}: found no Python file with docstrings. Pass text files with --text.")
    return list(found)


def _docstrings_of(path):
    """The docstrings of a module, its classes and functions without indentation; none if it cannot be parsed."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node, clean=False)
            text = " ".join(inspect.cleandoc(text).split()) if text else ""
            if len(text) >= SHORTEST and text.isprintable():
                yield text
