"""Extension of griffe: sections of our docstrings that Google's style does not know become Markdown.

"Example:" is code, so it is fenced. "Call arguments:" and "Source:" become paragraphs with a bold title.
"""

import re
import textwrap

from griffe import Extension

SECTION = re.compile(r"^(Example|Call arguments|Source): *(.*)\n((?:(?: {4}.*)?\n)*)", re.MULTILINE)


class DocstringExamples(Extension):
    def on_instance(self, *, obj, **_):
        """Rewrites the docstring of each object."""
        if obj.docstring:
            obj.docstring.value = SECTION.sub(_markdown, obj.docstring.value + "\n").rstrip()


def _markdown(section):
    title, rest, block = section[1], section[2], textwrap.dedent(section[3]).strip("\n")
    if title == "Example":
        return f"**Example**\n\n```python\n{block}\n```\n\n"
    if title == "Source":
        return f"**Source** {rest} {block}\n"
    items = re.sub(r"^(\w[\w, ]*):", r"\n- `\1`:", block, flags=re.MULTILINE)
    return f"**{title}**\n{items}\n\n"
