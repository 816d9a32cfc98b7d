"""docs/serve.md: its commands run, and a real server gives the answers that it shows."""

import itertools
import json
import shlex
import shutil
import subprocess

import pytest
from doc_pages import blocks, code_blocks, run_command
from server.tiny_zoo import server_process
from zoo.tiny_bert import task, tiny_classifier, tiny_mask_filler, write_tiny

PAGE = "serve.md"
ADDRESS = "http://127.0.0.1:8000"
COMMANDS = [line for language, text in blocks(PAGE) if language == "sh" for line in text.splitlines()]
pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """The address of the server that the page starts, at another port; its own models are tiny ones."""
    folder = tmp_path_factory.mktemp("models")
    write_tiny(folder / "my_model", tiny_classifier().model, task=task())
    write_tiny(folder / "my_bert", tiny_mask_filler().model)
    (command,) = (line for line in COMMANDS if line.startswith("keras-attention serve"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with server_process(*shlex.split(command)[1:], "--max-batch", "1") as (_, address):
            yield address


@pytest.mark.skipif(not shutil.which("curl"), reason="There is no curl.")
def test_answers_are_those_that_are_shown(url):
    for (_, command), (language, shown) in itertools.pairwise(blocks(PAGE)):
        if command.startswith("curl "):
            command = command.replace(ADDRESS, url)
            output = subprocess.run(["bash", "-c", command], check=True, capture_output=True, text=True).stdout
            if language == "json":
                check_alike(json.loads(shown), json.loads(output), exact="my_" not in shown)
            else:
                assert 'requests_total{path="/v1/translate",status="200"} 1.0' in output


def check_alike(shown, actual, exact):
    """Two JSON values are of one form; with `exact` they are equal but for the rounding of numbers."""
    assert type(shown) is type(actual)
    if isinstance(shown, dict):
        assert shown.keys() == actual.keys()
        for name in shown:
            check_alike(shown[name], actual[name], exact)
    elif isinstance(shown, list):
        assert len(shown) == len(actual)
        for one, other in zip(shown, actual, strict=True):
            check_alike(one, other, exact)
    elif exact:
        assert shown == (pytest.approx(actual, abs=1e-3) if isinstance(shown, float) else actual)


def test_the_saved_model_is_written_and_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for line in COMMANDS:
        if not line.startswith(("curl ", "keras-attention serve")):
            run_command(line)
    capsys.readouterr()
    (code,) = code_blocks(PAGE)
    exec(compile(code, PAGE, "exec"), {})
    assert capsys.readouterr().out == "[b'2021-03-03']\n"
