"""The texts of HTML, Markdown and subtitle files, which are translated while everything else stays as it is."""

import re
from collections.abc import Callable
from html import escape, unescape
from html.parser import HTMLParser
from typing import NamedTuple

from keras_attention.pipelines.sentences import with_line_breaks
from keras_attention.support.errors import UserError, one_line

FORMATS = ("text", "markdown", "html", "srt")
INLINE = set(
    [
        "a",
        "abbr",
        "acronym",
        "b",
        "bdi",
        "bdo",
        "big",
        "cite",
        "data",
        "del",
        "dfn",
        "em",
        "font",
        "i",
        "img",
        "ins",
        "label",
        "mark",
        "q",
        "s",
        "small",
        "span",
        "strike",
        "strong",
        "sub",
        "sup",
        "time",
        "tt",
        "u",
        "var",
        "wbr",
    ]
)
UNTRANSLATED = {"script", "style", "code", "pre", "kbd", "samp", "textarea", "svg", "math", "template", "noscript"}
HIDDEN = re.compile(r"</?x\d+/?>|\{x\d+\}")  # what stands for inline tags, and for code and pictures
VOID = set(["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"])


class Part(NamedTuple):
    """A part of a document.

    Attributes:
        text: str, to be translated if `hidden` is not None, else kept.
        hidden: dict from each tag or placeholder in `text` to what it stands for, or None.
        finish: callable (translation) -> what is written.
    """

    text: str
    hidden: dict | None = None
    finish: Callable[[str], str] = str


def translate_document(document, markup, translate):
    """Translates the texts of a document.

    Args:
        document: str.
        markup: one of `FORMATS`.
        translate: callable (list of str) -> list of str, their translations. Tags and placeholders stay in them.

    Returns:
        str.
    """
    if "\r\n" in document:
        return translate_document(document.replace("\r\n", "\n"), markup, translate).replace("\n", "\r\n")
    parts = parts_of(document, markup)
    translations = iter(translate([part.text.strip() for part in parts if part.hidden is not None]))
    written = []
    for part in parts:
        if part.hidden is None:
            written.append(part.text)
            continue
        start, end = len(part.text) - len(part.text.lstrip()), len(part.text.rstrip())
        shown = _shown(part.finish(next(translations).strip()), part.hidden)
        written.append(f"{part.text[:start]}{shown}{part.text[end:]}")
    return "".join(written)


def parts_of(document, markup):
    """The parts of a document: list of Part.

    Args:
        document: str.
        markup: one of `FORMATS`. "text" makes one text of each line.
    """
    return {"text": _text_parts, "markdown": _markdown_parts, "html": _html_parts, "srt": _srt_parts}[markup](document)


def _text_parts(document):
    return [_part(line) for line in re.split(r"(\n)", document)]


def _part(text, hidden=None, finish=str):
    """A Part with a text to translate, unless it has no letter."""
    rest = HIDDEN.sub("", text)
    return Part(text, hidden or {}, finish) if any(map(str.isalpha, rest)) else Part(_shown(text, hidden or {}))


def _shown(text, hidden):
    """A text with what its tags and placeholders stand for."""
    return HIDDEN.sub(lambda hit: hidden.get(hit[0], hit[0]), text)


class _Reader(HTMLParser):
    """Collects the parts of an HTML document; inline tags stay in the text that they are in."""

    def __init__(self, document):
        super().__init__(convert_charrefs=False)
        self._document, self._line_starts = document, [0, *(match.end() for match in re.finditer("\n", document))]
        self.parts, self._raw, self._text, self._hidden, self._open, self._skipped = [], [], [], {}, [], []

    def flush(self):
        text, raw, hidden = "".join(self._text), "".join(self._raw), self._hidden
        self._text, self._raw, self._hidden, self._open = [], [], {}, []
        if any(map(str.isalpha, HIDDEN.sub("", text))):
            start, end = len(text) - len(text.lstrip()), len(text.rstrip())
            inner = re.sub(r"\s+", " ", text[start:end])
            self.parts.append(Part(f"{text[:start]}{inner}{text[end:]}", hidden, _escaped))
        else:
            self.parts.append(Part(raw))

    def _hide(self, raw, name):
        self._hidden[name] = raw
        self._text.append(name)
        self._raw.append(raw)

    def _keep(self, raw):
        self.flush()
        self.parts.append(Part(raw))

    def handle_starttag(self, tag, attrs):
        raw = self.get_starttag_text() or ""
        untranslated = tag in UNTRANSLATED or dict(attrs).get("translate") == "no"
        if self._skipped or (untranslated and tag not in VOID):
            if not self._skipped and (tag in ("code", "kbd", "samp") or tag in INLINE):  # within a sentence
                self._hide(raw, f"{{x{len(self._hidden) + 1}}}")
                self._skipped.append((tag, True))
                return
            if not self._skipped:
                self.flush()
                self._skipped.append((tag, False))
            elif tag not in VOID:
                self._skipped.append((tag, self._skipped[-1][1]))
            self._skip(raw)
        elif tag in INLINE:
            number = len(self._hidden) + 1
            if tag in VOID:
                self._hide(raw, f"<x{number}/>")
            else:
                self._open.append((tag, number))
                self._hide(raw, f"<x{number}>")
        else:
            self._keep(raw)

    def _skip(self, raw):
        if self._skipped and self._skipped[-1][1]:
            name = list(self._hidden)[-1]
            self._hidden[name] += raw
            self._raw.append(raw)
        else:
            self.parts.append(Part(raw))

    def handle_startendtag(self, tag, attrs):
        raw = self.get_starttag_text() or ""
        if self._skipped:
            self._skip(raw)
        elif tag in INLINE:
            self._hide(raw, f"<x{len(self._hidden) + 1}/>")
        else:
            self._keep(raw)

    def handle_endtag(self, tag):
        raw = self._source_of_end(tag)
        if self._skipped:
            self._skip(raw)
            if tag == self._skipped[-1][0]:
                self._skipped.pop()
        elif tag in INLINE:
            if self._open and self._open[-1][0] == tag:
                self._hide(raw, f"</x{self._open.pop()[1]}>")
            else:
                self._hide(raw, f"<x{len(self._hidden) + 1}/>")
        else:
            self._keep(raw)

    def _source_of_end(self, tag):
        start = self._position()
        end = self._document.find(">", start)
        return self._document[start : end + 1] if end > 0 else f"</{tag}>"

    def _position(self):
        line, column = self.getpos()
        return self._line_starts[line - 1] + column

    def handle_data(self, data):
        if self._skipped:
            self._skip(data)
        else:
            self._text.append(data)
            self._raw.append(data)

    def handle_entityref(self, name):
        self._entity(f"&{name};" if self._ends_with_semicolon(name) else f"&{name}")

    def handle_charref(self, name):
        self._entity(f"&#{name};" if self._ends_with_semicolon(f"#{name}") else f"&#{name}")

    def _ends_with_semicolon(self, name):
        return self._document.startswith(f"&{name};", self._position())

    def _entity(self, raw):
        if self._skipped:
            self._skip(raw)
        elif unescape(raw) in "<>{}":
            self._hide(raw, f"{{x{len(self._hidden) + 1}}}")
        else:
            self._text.append(unescape(raw))
            self._raw.append(raw)

    def handle_comment(self, data):
        self._other(f"<!--{data}-->")

    def handle_decl(self, decl):
        self._other(f"<!{decl}>")

    def unknown_decl(self, data):
        self._other(f"<![{data}]]>")

    def handle_pi(self, data):
        self._other(f"<?{data}>")

    def _other(self, raw):
        if self._skipped:
            self._skip(raw)
        else:
            self._keep(raw)


def _escaped(text):
    """A translation with HTML's special signs escaped, but for the tags that stand for others."""
    return "".join(
        part if number % 2 else escape(part, quote=False)
        for number, part in enumerate(re.split(f"({HIDDEN.pattern})", text))
    )


def _html_parts(document):
    reader = _Reader(document)
    try:
        reader.feed(document)
        reader.close()
    except AssertionError as error:  # Python's parser says so of a broken declaration
        raise UserError(
            f"The HTML cannot be read: {one_line(str(error))}. Mend it, or translate it with --format text."
        ) from error
    reader.flush()
    return reader.parts


SPEAKER = re.compile(r"\s*[-–]\s*")
STYLE = re.compile(r"\{\\[^{}\n]{1,500}\}")  # such as {\an8}, the place on the screen
CUE = re.compile(r"(?m)^[ \t]*\d+[ \t]*\n[ \t]*\d\d?:\d\d:\d\d[,.]\d+[ \t]*-->[^\n]*\n")


def _srt_parts(document):
    parts, done = [], 0
    heads = [*CUE.finditer(document)]
    for head, following in zip(heads, [*heads[1:], None][: len(heads)], strict=True):
        parts.append(Part(document[done : head.end()]))
        done = following.start() if following else len(document)
        text = document[head.end() : done]
        lines = re.split(r"(\n)", text)
        speakers = [SPEAKER.match(line) for line in lines]
        if sum(map(bool, speakers)) > 1:
            for line, speaker in zip(lines, speakers, strict=True):
                dash = speaker[0] if speaker else ""
                parts += [Part(dash), _subtitle(line[len(dash) :])]
            continue
        stripped = text.strip()
        start = text.index(stripped)
        joined = re.sub(r"\s*\n\s*", " ", stripped)
        parts += [Part(text[:start])]
        parts += [_subtitle(joined, lambda match, shape=stripped: with_line_breaks(shape, match))]
        parts += [Part(text[start + len(stripped) :])]
    return [*parts, Part(document[done:])]


def _subtitle(text, finish=str):
    """A Part whose styles in braces are tags."""
    hidden = {}

    def hide(match):
        name = f"<x{len(hidden) + 1}/>"
        hidden[name] = match[0]
        return name

    return _part(STYLE.sub(hide, text), hidden, finish)


PREFIX = re.compile(r"[ \t]*(?:(?:>|[-*+]|\d{1,9}[.)]|#{1,6}|\[[ xX]\])[ \t]+|>(?=\S))*")
# All lengths are bounded, so that the time stays linear.
TARGET = r"(?:\([^()\s]{0,2000}(?:\s{1,9}\"[^\"\n]{0,500}\")?\)|\[[^\]\n]{0,500}\])"
INLINE_MARKUP = re.compile(
    r"(?P<kept>(?<!`)(`+)(?!`).{1,2000}?(?<!`)\2(?!`)|!\[[^\]\n]{0,500}\]\([^()\s]{0,2000}(?:\s{1,9}\"[^\"\n]{0,500}\")?\)"
    r"|<(?:https?|mailto):[^<>\s]{1,2000}>|</?[A-Za-z][^<>\n]{0,2000}>|\\[^\w\s]|\[\^[^\]\s]{1,500}\]|&(?:\w{1,40}|#\d{1,9});)"
    rf"|(?P<link>\[(?=[^\]\n]{{1,500}}\]{TARGET}))|(?P<target>\]{TARGET})"
    r"|(?P<emphasis>(?<![\s*])\*{1,3}(?!\*)|(?<!\*)\*{1,3}(?![\s*])|~~|(?<!\w)(?:___|__|_)(?=\w)|(?<=[\w.,!?])(?:___|__|_)(?!\w))"
)


def _markdown_parts(document):
    """Blocks are found by markdown-it; the lines of a paragraph are one text, and code and HTML blocks stay."""
    from markdown_it import MarkdownIt

    lines = re.findall(r"[^\n]*\n|[^\n]+", document)
    blocks, tables = [], set()
    front = re.match(r"---\n.*?\n---[ \t]*(?:\n|$)", document, re.DOTALL)
    skipped = front[0].rstrip("\n").count("\n") + 1 if front else 0
    body = "\n" * skipped + "".join(lines[skipped:])
    for token in MarkdownIt("commonmark").enable("table").parse(body):
        if token.type == "inline" and token.map:
            blocks.append(tuple(token.map))
        elif token.type == "tr_open" and token.map:
            tables.add(tuple(token.map))
    parts, done = [], 0
    for first, last in sorted(set(blocks) | tables):
        if first < done:
            continue
        parts.append(Part("".join(lines[done:first])))
        if (first, last) in tables:
            for line in lines[first:last]:
                parts += [Part(cell) if i % 2 else _markdown_text(cell) for i, cell in enumerate(_cells(line))]
        else:
            parts += _paragraph("".join(lines[first:last]))
        done = last
    return [*parts, Part("".join(lines[done:]))]


def _cells(line):
    return re.split(r"((?<!\\)\||\n$)", line)


def _paragraph(block):
    lines = block.rstrip("\n").split("\n")
    prefixes = [PREFIX.match(line)[0] for line in lines]
    if re.fullmatch(r"[ \t>]*(?:=+|-+)[ \t]*", lines[-1]) and len(lines) > 1:  # the line below a heading
        body, tail = lines[:-1], block[len("\n".join(lines[:-1])) :]
    else:
        body, tail = lines, block[len("\n".join(lines)) :]
    text = "\n".join(line[len(prefix) :] for line, prefix in zip(body, prefixes, strict=False))
    part = _markdown_text(text)

    def finish(match):
        return "\n".join(
            (prefixes[min(i, len(body) - 1)] if i else "") + line for i, line in enumerate(match.split("\n"))
        )

    if part.hidden is None:
        return [Part(block)]
    return [Part(prefixes[0]), part._replace(finish=finish), Part(tail)]


def _markdown_text(text):
    """A Part with the markup of Markdown as tags: emphasis and links in pairs, code and pictures as placeholders."""
    hidden, open_marks = {}, []

    def hide(match):
        number = len(hidden) + 1
        if match["kept"]:
            name = f"{{x{number}}}" if not match["kept"].startswith("<") else f"<x{number}/>"
        elif match["link"]:
            open_marks.append(("[", number))
            name = f"<x{number}>"
        else:
            kind = "[" if match["target"] else match["emphasis"]
            if kind in [one for one, _ in open_marks]:
                while open_marks[-1][0] != kind:
                    open_marks.pop()
                name = f"</x{open_marks.pop()[1]}>"
            elif kind == "[":
                return match[0]
            else:
                open_marks.append((kind, number))
                name = f"<x{number}>"
        hidden[name] = match[0]
        return name

    return _part(INLINE_MARKUP.sub(hide, text), hidden)
