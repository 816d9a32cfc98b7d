"""Pairs of texts as inputs: a question and an answer, two sentences to compare."""

from keras_attention.inputs import Field
from keras_attention.inputs.text import TextInput
from keras_attention.support.errors import UserError, quoted


class PairInput(TextInput):
    """Two texts that a model reads together. See the package's docstring for the attributes and methods.

    In a line of a file or of the command line, a tab separates the two.
    """

    name = "pair"
    fields = {
        **TextInput.fields,
        "texts_b": Field(list[str] | None, "The second texts, for a model of text pairs.", None),
    }
    widget = "pair"
    noun = "pair of texts"
    question = "How do two texts fit together?"
    instruction = "Type two texts: the answer appears while you type."

    def sides(self, line: str) -> tuple[str, ...]:
        """The two texts of a line.

        Raises:
            UserError: if the line does not have exactly one tab.
        """
        if line.count("\t") != 1:
            raise UserError(f"A pair of texts must contain exactly one tab. Found {line.count(chr(9))}")
        return tuple(line.split("\t"))

    def check_line(self, number: int, line: str) -> None:
        """Raises UserError, with the number of the line, unless it holds two texts."""
        if line.count("\t") != 1:
            raise UserError(
                f"This model classifies text pairs. Text {number} has {line.count(chr(9))} tabs: {quoted(line)}. "
                "Expected: two texts with one tab between them."
            )

    def signature(self) -> dict[str, tuple[str, str]]:
        """The inputs of an exported model; B is the number of pairs."""
        return {**super().signature(), "texts_b": ("string (B)", "the second texts, as many")}
