"""The pages of docs/: their code runs, the lines they quote are in the code, and what they link to is there."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from keras_attention import cli

ROOT = Path(__file__).parents[1]
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
QUOTE = re.compile(r"# (keras_attention/\S+\.py)\n(.*)", re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")


def blocks(page, language):
    return [block for name, block in FENCE.findall(PAGES[page]) if name == language]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in LINK.findall(PAGES[page]):
        assert (ROOT / "docs" / target).exists(), target


@pytest.mark.parametrize("page", PAGES)
def test_quoted_lines_are_in_the_code(page):
    for path, lines in (match.groups() for block in blocks(page, "python") if (match := QUOTE.match(block))):
        code = [line.strip() for line in (ROOT / path).read_text(encoding="utf-8").splitlines()]
        quoted = [line.strip() for line in lines.splitlines()]
        assert any(code[i : i + len(quoted)] == quoted for i in range(len(code))), lines


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if any(not QUOTE.match(b) for b in blocks(page, "python"))])
def test_python_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(block for block in blocks(page, "python") if not QUOTE.match(block))
    exec(compile(code, page, "exec"), {})


@pytest.mark.slow
@pytest.mark.parametrize("page", ["attention.md", "fine_tune.md"])
def test_commands_end_with_0(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for line in "".join(blocks(page, "sh")).splitlines():
        if line.startswith("keras-attention "):
            assert cli.main(shlex.split(line)[1:]) == 0, line
        else:
            subprocess.run(["bash", "-c", line], check=True)
