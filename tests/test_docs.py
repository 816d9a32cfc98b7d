"""The pages of docs/: their code runs, the lines they quote are in the code, and their links lead to files.

tests/server/test_serve_page.py runs serve.md, which needs a server.
"""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from convert.fake_hub import running_hub
from convert.marian_models import TINY_MARIAN
from convert.tiny_checkpoints import tiny_tensors, write_checkpoint
from doc_pages import PAGES, QUOTE, ROOT, blocks, code_blocks, commands, run_command
from huggingface_hub import constants

PAGES_WITH_COMMANDS = (
    "attention.md", "beyond_sentences.md", "commands.md", "convert.md", "fine_tune.md", "keras.md", "share.md",
    "train.md"
)  # fmt: skip
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """An empty folder to work in, with a cache of its own for compiled programs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KERAS_ATTENTION_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_links_have_targets(page):
    for target in LINK.findall(PAGES[page]):
        assert (ROOT / "docs" / target).exists(), target


@pytest.mark.parametrize("page", PAGES)
def test_quoted_lines_are_in_the_code(page):
    for path, lines in (match.groups() for _, block in blocks(page) if (match := QUOTE.match(block))):
        code = [line.strip() for line in (ROOT / path).read_text(encoding="utf-8").splitlines()]
        quoted = [line.strip() for line in lines.splitlines()]
        assert any(code[i : i + len(quoted)] == quoted for i in range(len(code))), lines


@pytest.fixture
def hub(elsewhere, monkeypatch):
    """A hub on this machine, known to this process and to those that it starts."""
    cache = str(elsewhere / "cache")
    monkeypatch.setenv("KERAS_ATTENTION_CACHE", cache)
    monkeypatch.setenv("HF_HUB_CACHE", cache)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", cache)
    with running_hub() as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
        template = f"{hub.endpoint}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        yield hub


@pytest.mark.thorough
@pytest.mark.parametrize("page", PAGES_WITH_COMMANDS)
def test_commands_and_code_run_one_after_the_other(page, elsewhere, request, monkeypatch):
    if page == "convert.md":
        tensors, positions = tiny_tensors(), "bert.embeddings.position_embeddings.weight"
        longer = {positions: np.resize(tensors[positions], (128, tensors[positions].shape[1]))}
        write_checkpoint(Path("my_bert"), tensors | longer, max_position_embeddings=128)
        request.getfixturevalue("hub").publish("my_bert", "sentence-transformers/all-MiniLM-L6-v2")
        rows = "".join(f"a b {number},good\nc b {number},bad\n" for number in range(9))
        Path("reviews.csv").write_text(f"review,mood\n{rows}")
    if page == "share.md":
        request.getfixturevalue("hub").writers.add("hf_writes")
        monkeypatch.setenv("HF_TOKEN", "hf_writes")
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        shutil.copytree(ROOT / "saved_models" / "bert_mini_sst2", "my_model")
    Path("saved_models").symlink_to(ROOT / "saved_models")
    namespace, code = {}, code_blocks(page)
    for language, text in blocks(page):
        if language == "sh":
            for line in commands(text):
                run_command(line)
        elif text in code:
            exec(compile(text, page, "exec"), namespace)


@pytest.mark.slow
def test_the_table_for_pipelines_of_transformers(hub, monkeypatch):
    """Its second column, run line by line on a small Marian model, whose answers transformers wrote."""
    monkeypatch.setattr(
        "keras_attention.pipelines.translator._loops", lambda hypotheses: False
    )  # random models write loops
    hub.publish(TINY_MARIAN / "swish", "Helsinki-NLP/opus-mt-en-ro")
    expected = np.load(TINY_MARIAN / "swish" / "expected.npz")
    _, _, section = PAGES["convert.md"].partition("## Coming from pipeline")
    cells = re.findall(r"^\| .+ \| `([^`]+)` \|$", section, re.MULTILINE)
    namespace, answers = {}, {}
    for cell in cells:
        if cell.startswith(("import", "translator =")):
            exec(cell, namespace)
        else:
            answers[cell] = eval(cell, namespace)
    assert len(cells) == 9
    call = 'translator.translate("A dog runs.'
    assert answers[f'{call}")'] == expected["beam_0"][0]
    assert answers[f'{call}", beam_size=1)'] == expected["greedy_0"][0]
    assert len(answers[f'{call}", beam_size=2, n_best=2)']) == 2
    assert answers['keras_attention.load("mine")'].translate("A dog runs.") == expected["beam_0"][0]


@pytest.mark.thorough
def test_workers_get_their_arguments(elsewhere, monkeypatch):
    """By TF_CONFIG, in bash, with free ports; tests/cli/test_launch.py has the other block of scale_out.md."""
    (elsewhere / "recipes").symlink_to(ROOT / "recipes")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with contextlib.ExitStack() as stack:
        ports = [stack.enter_context(contextlib.closing(socket.create_server(("localhost", 0)))) for _ in range(2)]
        free = [str(port.getsockname()[1]) for port in ports]
    for language, text in blocks("scale_out.md"):
        if language == "sh" and "TF_CONFIG" in text:
            script = text.replace("12345", free[0]).replace("12346", free[1])
            subprocess.run(["bash", "-e", "-c", script], check=True)


@pytest.mark.slow
def test_the_program_for_several_machines_trains_on_one(elsewhere, capsys):
    (code,) = code_blocks("scale_out.md")
    exec(compile(code, "scale_out.md", "exec"), {"__name__": "train"})
    assert Path("model.keras").is_file()
    first, *_, last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last < first


def test_each_room_has_a_reference_page():
    rooms = re.search(r"^ROOMS = \(\n(.*?)^\)", (ROOT / ".ci" / "site_pages.py").read_text(), re.MULTILINE | re.DOTALL)
    rooms_of_the_package = {path.parent.name for path in ROOT.glob("keras_attention/*/__init__.py")}
    assert rooms_of_the_package - {"cli"} == set(re.findall(r"\w+", rooms.group(1)))


@pytest.mark.thorough
def test_the_site_builds_without_warnings(tmp_path):
    """Every page and card, a reference page for each room, and nothing that a browser would fetch from elsewhere."""
    pytest.importorskip("mkdocs_autorefs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(command, check=True, cwd=ROOT, env=environment)
    for page in PAGES:
        assert (tmp_path / page).with_suffix(".html").exists(), page
    rooms = {path.parent.name for path in ROOT.glob("keras_attention/*/__init__.py")} - {"cli"}
    assert rooms <= {path.stem for path in (tmp_path / "reference").glob("*.html")}
    for page in tmp_path.rglob("*.html"):
        fetched = re.findall(
            r'<(?:script|img|iframe)[^>]* src="([^"]+)|<link [^>]*stylesheet[^>]*href="([^"]+)', page.read_text()
        )
        assert not [target for pair in fetched for target in pair if target.startswith(("http", "//"))], page
    layers = (tmp_path / "reference" / "layers.html").read_text(encoding="utf-8")
    assert all(name in layers for name in ("AdditiveAttention", "MultiHeadAttention", "padding_mask"))
