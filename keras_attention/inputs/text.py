"""Single texts as inputs."""

from keras_attention.inputs import Field


class TextInput:
    """One text. See the package's docstring for the attributes and methods."""

    name = "text"
    fields = {"texts": Field(list[str], "Texts.", low=1)}
    widget = "text"
    noun = "text"
    question = "Which label fits a text?"
    instruction = "Type or paste a text: the answer appears while you type."
    is_file = False
    body_bytes = 0

    def sides(self, line: str) -> tuple[str, ...]:
        """The texts of a line of a file or of the command line: the line itself."""
        return (line,)

    def signature(self) -> dict[str, tuple[str, str]]:
        """The inputs of an exported model; B is the number of texts."""
        return {"texts": ("string (B)", "texts in UTF-8, any number of any length")}
