"""Hook of mkdocs: adds the pages of the site that are generated, and turns links into the checkout into links to them.

The start page is README.md. Each model has its card, each room of the package a reference page, and the commands have a
page with their help texts.
"""

import ast
import os
import re
import sys
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "keras_attention"
sys.path.insert(0, str(ROOT))
SOURCE = "https://github.com/keras-attention/keras-attention/blob/main/"
# Rooms with a reference page, in the order of the navigation. The command line has its help texts instead.
ROOMS = (
    "layers",
    "models",
    "inputs",
    "decoding",
    "tokenizers",
    "data",
    "training",
    "pipelines",
    "finetuning",
    "evaluation",
    "publishing",
    "catalog",
    "zoo",
    "convert",
    "export",
    "visualize",
    "server",
    "runtime",
    "support",
)


def on_config(config):
    """Adds the generated pages to the navigation, and a menu of versions where there are several."""
    cards = [{name: f"cards/{name}.md"} for name in _models()]
    reference = [{"keras_attention": "reference/keras_attention.md"}]
    reference += [{room: f"reference/{room}.md"} for room in ROOMS]
    if os.environ.get("DOCS_WITH_VERSIONS"):  # .ci/versioned_docs.py
        config.extra["version"] = {"provider": "mike"}
    config.nav += [{"Model cards": cards}, {"Reference": [*reference, {"Command line": "reference/commands.md"}]}]
    return config


def on_files(files, config):
    """Adds the generated pages, the cards and their pictures."""
    pages = {"index.md": _start_page(), "reference/commands.md": _command_page()}
    pages["reference/keras_attention.md"] = "# keras_attention\n\n" + _directive("keras_attention")
    pages |= {f"reference/{room}.md": _reference_page(room) for room in ROOMS}
    for name in _models():
        folder = ROOT / "saved_models" / name
        pages[f"cards/{name}.md"] = re.sub(
            r"\]\((\w+\.png)\)", rf"]({name}-\1)", (folder / "CARD.md").read_text("utf-8")
        )
        for picture in folder.glob("*.png"):
            files.append(File.generated(config, f"cards/{name}-{picture.name}", content=picture.read_bytes()))
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown, page, **_):
    """Links to cards and their pictures lead to their pages on the site, those to the course into the checkout."""
    up = "../" * page.file.src_uri.count("/")
    markdown = re.sub(r"\]\((?:\.\./)?saved_models/(\w+)/CARD\.md\)", rf"]({up}cards/\1.md)", markdown)
    markdown = re.sub(r"\]\((?:\.\./)?saved_models/(\w+)/(\w+\.png)\)", rf"]({up}cards/\1-\2)", markdown)
    return re.sub(r"\]\(\.\./(course/[^)]+)\)", rf"]({SOURCE}\1)", markdown)


def _models():
    return sorted(path.parent.name for path in (ROOT / "saved_models").glob("*/manifest.json"))


def _start_page():
    """README.md, whose links lead to the pages, or to the repository for files that are not on the site."""
    text = (ROOT / "README.md").read_text("utf-8")
    text = re.sub(r"\]\(docs/([^)]+)\)", r"](\1)", text)
    return re.sub(r"\]\(([A-Z]\w*(?:\.md)?)\)", rf"]({SOURCE}\1)", text)


def _reference_page(room):
    """The public classes and functions of each module of a room."""
    first = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text("utf-8"))) or ""
    parts = [f"# keras_attention.{room}", first]
    for path in sorted((PACKAGE / room).rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        if any(_is_public(node) for node in tree.body):
            parts.append(_directive(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")))
    return "\n\n".join(parts)


def _is_public(node):
    return isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_")


def _directive(module):
    return f"::: {module}\n    options:\n      heading_level: 2\n"


def _command_page():
    """The help text of each command."""
    from keras_attention.cli.main import make_parser

    parts = ["# Command line"]
    for name, parser in _parsers("keras-attention", make_parser()):
        parts.append(f"## {name}\n\n```text\n{parser.format_help().rstrip()}\n```")
    return "\n\n".join(parts)


def _parsers(name, parser):
    """Yields (name, parser) of a command and of all commands below it."""
    yield name, parser
    for action in parser._subparsers._group_actions if parser._subparsers else ():
        for child, below in action.choices.items():
            yield from _parsers(f"{name} {child}", below)
