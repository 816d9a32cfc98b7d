"""Documents out of files, and out of the standard library."""

import gzip

import pytest

from keras_attention.data.prose.documents import docstrings, read_documents
from keras_attention.support.errors import UserError


def test_blank_lines_divide_documents(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text("One.\nTwo.\n\nThree.\r\n\n\n  \nFour.\n", encoding="utf-8")
    assert read_documents([path]) == ["One. Two.", "Three.", "Four."]


def test_a_blank_line_at_the_end_alone_makes_one_document(tmp_path):
    (tmp_path / "book.txt").write_text("It was late.\nNobody came.\n\n")
    assert read_documents([tmp_path / "book.txt"]) == ["It was late. Nobody came."]


def test_without_blank_lines_each_line_is_a_document(tmp_path):
    path = tmp_path / "reviews.txt.gz"
    path.write_bytes(gzip.compress(b"Good.\n Bad.\n"))
    other = tmp_path / "other.txt"
    other.write_text("Hm.", encoding="utf-8")
    assert read_documents([path, other]) == ["Good.", "Bad.", "Hm."]


def test_a_file_without_text(tmp_path):
    path = tmp_path / "blank.txt"
    path.write_text("\n \n", encoding="utf-8")
    with pytest.raises(UserError, match="blank.txt: found no text"):
        read_documents([path])


def test_docstrings_of_modules_classes_and_functions(tmp_path):
    more = " and its text" * 5
    (tmp_path / "a.py").write_text(
        f'"""A module that says what it is for, in a line."""\nclass A:\n    """A class{more}.\n\n    More.\n'
        f'    """\n    async def f(self):\n        """A function{more}."""\n\ndef g():\n    """Short."""\n'
    )
    (tmp_path / "broken.py").write_text("def (")
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "b.py").write_text(f'"""{"Left out. " * 9}"""')
    texts = docstrings(tmp_path)
    assert [text.split(" and")[0] for text in texts] == [
        "A module that says what it is for, in a line.",
        "A class",
        "A function",
    ]
    assert texts[1].endswith("text. More.")
    with pytest.raises(UserError, match="found no Python file"):
        docstrings(tmp_path / "test" / "none")


def test_this_python_has_some():
    texts = docstrings(most_files=40)
    assert len(texts) > 50
    assert len(set(texts)) == len(texts)
