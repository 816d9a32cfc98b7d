"""Documents as inputs: texts of many sentences."""

import re

from keras_attention.inputs.text import TextInput

# A line break (also of HTML), or an end mark with closing quotes and brackets and a blank after it.
BREAK = re.compile(r"<br\s*/?>|[\r\n]+|(?<![.!?…])[.!?…]++[\"'»”’)\]]*+(?=\s)", re.IGNORECASE)
NO_END = re.compile(r"(?:\b(?:mr|mrs|ms|dr|st|vs|prof|jr|sr|etc|e\.g|i\.e|cf|no)|\b[^\W\d_])\.$", re.IGNORECASE)
WINDOW = 12  # characters before a full stop that tell an abbreviation


class DocumentInput(TextInput):
    """One text, which is read sentence by sentence. See the package's docstring for the attributes and methods."""

    name = "document"

    @staticmethod
    def sentences(text: str) -> list[tuple[int, int]]:
        """The positions of the sentences: list of (start, end), without the blanks and line breaks between them.

        A sentence ends at a line break, or at `.`, `!`, `?` or `…` with a blank after it, unless this ends an
        abbreviation such as "Mr." or an initial. In linear time, because documents are long and many.
        """
        spans, start = [], 0
        for match in BREAK.finditer(text):
            is_break = text[match.start()] in "<\r\n"
            end = match.start() if is_break else match.end()
            if not is_break and NO_END.search(text, max(start, end - WINDOW), end):
                continue
            spans.append((start, end))
            start = match.end()
        stripped = []
        for first, last in [*spans, (start, len(text))]:
            part = text[first:last]
            if part.strip():
                first += len(part) - len(part.lstrip())
                stripped.append((first, first + len(part.strip())))
        return stripped
