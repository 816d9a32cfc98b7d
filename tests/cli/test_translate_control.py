"""`translate --prefix`, `--terms` and `--do-not-translate`."""

import pytest
from cli.running import translator
from zoo.tiny_entry import ENGLISH


@pytest.mark.slow
def test_answers_begin_with_the_prefix_and_a_run_with_another_one_is_another(run, complains, tmp_path):
    answer = translator().translate(ENGLISH[0], prefix="20")
    assert run("translate", "--model", "tiny", "--prefix", "20", ENGLISH[0])[:2] == (0, f"{answer}\n")
    (tmp_path / "terms.tsv").write_text("dog\t7\n")
    answer = translator().translate(ENGLISH[0], terms={"dog": "7"})
    code, out, _ = run("translate", "--model", "tiny", "--terms", tmp_path / "terms.tsv", ENGLISH[0])
    assert (code, out) == (0, f"{answer}\n")


def test_demands_that_cannot_be_met_are_one_line(complains, tmp_path):
    words = ("translate", "--model", "tiny", ENGLISH[0])
    assert "The model cannot write 'Das'" in complains(*words, "--prefix", "Das")
    path = tmp_path / "terms.tsv"
    assert "terms.tsv" in complains(*words, "--terms", path)
    path.write_bytes(b"dog Hund\n")
    assert "line 1: found 'dog Hund'. Expected: a term, a tab, and its translation." in complains(
        *words, "--terms", path
    )
    path.write_bytes(b"dog\t\xff\n")
    assert "UTF-8" in complains(*words, "--terms", path)
    path.write_bytes(b"\n")
    assert "there is no name" in complains(*words, "--do-not-translate", path)
    path.write_bytes(b"dog\n")
    assert "between natural languages" in complains(*words, "--do-not-translate", path)
    assert "Leave out --prefix." in complains(*words, "--stream", "--prefix", "20")
