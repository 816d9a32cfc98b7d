"""The texts of HTML, Markdown and subtitle files."""

import re

import pytest

from keras_attention.pipelines.markup import translate_document

HTML = """<!DOCTYPE html>
<html><head><title>My page</title><style>p {color: red}</style></head>
<p>This is <b>very <i>good</i></b> &amp; cheap &lt; 5 euros.<br>See <a href="x?a=1&amp;b=2" title="a > b">our
page</a>.</p><!-- note -->
<pre>keep this</pre><p>Run <code>make <b>all</b></code> now.</p><script>if (a<b) alert("hi")</script>
<ul><li>One<li>Two <span translate="no">Acme Corp</span></ul><p>17:45</p></html>
"""
MARKDOWN = """---
title: keep this
---
# Hello *world*

This is **bold text**, see [our page](http://a.org/x_y) and `some code`
in a second line. A snake_case word. 2 * 3 * 4

- First item
- Second item with
  a second line

> A quote
> goes on.

```python
print("keep this")
```

| Name | Meaning |
| --- | --- |
| `x` | A dog |

Title
=====

<div>keep this</div>

![keep this](a.png)
"""
SRT = """1
00:00:01,000 --> 00:00:02,500
Hello there,
my friend.

2
00:00:03,000 --> 00:00:04,000
- Who are you?
- <i>Nobody</i>
"""
DOCUMENTS = {"html": HTML, "markdown": MARKDOWN, "srt": SRT, "text": "A dog.\n\n17:45\nTwo\n"}


def in_capitals(texts):
    """A translation that keeps tags and placeholders."""
    return [
        "".join(
            re.split(r"(<[^>]*>|\{[^}]*\})", text)[i] if i % 2 else part.upper()
            for i, part in enumerate(re.split(r"(<[^>]*>|\{[^}]*\})", text))
        )
        for text in texts
    ]


@pytest.mark.parametrize("markup", DOCUMENTS)
def test_everything_but_the_texts_is_kept(markup):
    document = DOCUMENTS[markup]
    same = translate_document(document, markup, list)
    assert same.split() == document.split()
    assert markup == "html" or same == document
    crlf = document.replace("\n", "\r\n")
    assert translate_document(crlf, markup, list).replace("\r\n", "\n") == same
    assert translate_document("", markup, list) == ""


def test_texts_of_html():
    texts = []
    page = translate_document(HTML, "html", lambda some: texts.extend(some) or in_capitals(some))
    assert texts == [
        "My page",
        "This is <x1>very <x2>good</x2></x1> & cheap {x5} 5 euros.",
        "See <x1>our page</x1>.",
        "Run {x1} now.",
        "One",
        "Two {x1}",
    ]
    assert '<b>VERY <i>GOOD</i></b> &amp; CHEAP &lt; 5 EUROS.<br>SEE <a href="x?a=1&amp;b=2" title="a > b">OUR' in page
    assert "RUN <code>make <b>all</b></code> NOW." in page
    assert 'TWO <span translate="no">Acme Corp</span></ul>' in page
    assert "keep this" in page
    assert "<!-- note -->" in page


def test_signs_of_html_in_a_translation_are_escaped():
    assert translate_document("<p>one</p>", "html", lambda _: ["1 < 2 & 3"]) == "<p>1 &lt; 2 &amp; 3</p>"


def test_texts_of_markdown():
    translated = translate_document(MARKDOWN, "markdown", in_capitals)
    assert "# HELLO *WORLD*" in translated
    assert "THIS IS **BOLD TEXT**, SEE [OUR PAGE](http://a.org/x_y) AND `some code`\nIN A SECOND LINE." in translated
    assert "- SECOND ITEM WITH\n  A SECOND LINE\n\n> A QUOTE\n> GOES ON." in translated
    assert "| `x` | A DOG |" in translated
    assert "TITLE\n=====" in translated
    assert translated.count("keep this") == 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I **live** in *a* house", "I <x1>live</x1> in <x3>a</x3> house"),
        ("2 * 3 ** 4, __init__ and _this_", "2 * 3 ** 4, <x1>init</x1> and <x3>this</x3>"),
    ],
)
def test_emphasis_is_hidden_in_pairs(text, expected):
    texts = []
    assert translate_document(text, "markdown", lambda some: texts.extend(some) or some) == text
    assert texts == [expected]


def test_times_and_lines_of_subtitles():
    texts = []
    translated = translate_document(SRT, "srt", lambda some: texts.extend(some) or in_capitals(some))
    assert texts == ["Hello there, my friend.", "Who are you?", "<i>Nobody</i>"]
    assert "00:00:01,000 --> 00:00:02,500\nHELLO THERE,\nMY FRIEND.\n" in translated
    assert translated.endswith("- WHO ARE YOU?\n- <i>NOBODY</i>\n")


def test_styles_of_subtitles_are_tags():
    """ "{\\an8}5 Millionen" became "Paris5 million": the style was read as a name."""
    texts, document = [], SRT.replace("Hello", r"{\an8}{\c&HFF&}5 million").replace("- Who", r"- {\an8}Who")
    assert translate_document(document, "srt", lambda some: texts.extend(some) or some) == document
    assert texts == ["<x1/><x2/>5 million there, my friend.", "<x1/>Who are you?", "<i>Nobody</i>"]
