"""The tool that puts the pairs of several sources together."""

import random
import re
import runpy
from pathlib import Path

import pytest

from keras_attention.cli.main import guarded

TOOL = runpy.run_path(str(Path(__file__).parents[3] / "recipes" / "tools" / "general_translation_data.py"))
PAIRS = [(f"Tom saw {n} birds in Bremen.", f"Tom hat {n} Vögel in Bremen gesehen.") for n in range(10, 111)]


@pytest.fixture
def tables(tmp_path):
    everyday = "".join(f"{number}\t{source}\t{target}\n" for number, (source, target) in enumerate(PAIRS))
    (tmp_path / "everyday.tsv").write_text("id\ten\tde\n" + everyday, encoding="utf-8")
    (tmp_path / "wiki.tsv").write_text("de\ten\nEs regnet , sagt er .\tIt 's raining , he says .\n", encoding="utf-8")
    return tmp_path


def made(tables, *more, languages=("en", "de"), out="out.tsv"):
    sources = ["--source", str(tables / "everyday.tsv"), "--source", f"{tables / 'wiki.tsv'}=3"]
    TOOL["main"](["--languages", *languages, *sources, "--out", str(tables / out), *more])
    return [tuple(line.split("\t")) for line in (tables / out).read_text(encoding="utf-8").splitlines()]


def test_all_pairs_of_all_sources_are_there_in_both_directions(tables):
    pairs = made(tables)
    assert set(PAIRS) < set(pairs)
    assert pairs.count(("It's raining, he says.", "Es regnet, sagt er.")) == 3
    turned = made(tables, languages=("de", "en"))
    assert {(target, source) for source, target in PAIRS} < set(turned)


def test_the_same_seed_gives_the_same_table(tables):
    assert made(tables) == made(tables, out="again.tsv")
    assert made(tables) != made(tables, "--seed", "5", out="other.tsv")


def test_additional_pairs_are_translations():
    actual = TOOL["additional_pairs"](PAIRS, seed=7)
    assert 20 <= len(actual) < len(PAIRS)
    assert any(source.count("Tom") == 2 == target.count("Tom") for source, target in actual)
    for source, target in actual:
        assert sorted(re.findall(r"\d+", source)) == sorted(re.findall(r"\d+", target))


def test_names_and_numbers_change_on_both_sides():
    draw = random.Random(3)
    for pair in PAIRS:
        source, target = TOOL["with_others"](pair, draw)
        assert (source, target) != pair
        assert "Bremen" not in source + target
        assert re.findall(r"\d+", source) == re.findall(r"\d+", target)
        assert source.split()[-1].strip(".") in target
    assert TOOL["with_others"](("It rains.", "Es regnet."), draw) is None


def test_a_name_in_the_middle_becomes_a_placeholder_on_both_sides():
    draw, pair = random.Random(3), ("Hello Tom, how are you?", "Hallo Tom, wie geht es dir?")
    found = [[re.findall(r"{\w+}", side) for side in TOOL["with_others"](pair, draw)] for _ in range(40)]
    assert all(source == target for source, target in found)
    assert 4 < sum(bool(source) for source, _ in found) < 20


def test_pairs_whose_lengths_do_not_fit_are_left_out():
    assert TOOL["fits"](("one two three", "eins zwei"))
    assert not TOOL["fits"](("one", "eins zwei drei vier fünf sechs"))
    assert not TOOL["fits"](("", "eins"))
    assert not TOOL["fits"](("one " * 61, "eins " * 61))


@pytest.mark.parametrize(
    ("change", "message"),
    [({"languages": ("en", "fr")}, "needs the columns en and fr. Received: id, en, de"), ({}, "Received: ")],
)
def test_errors_name_what_was_received(tables, capsys, change, message):
    languages = change.get("languages", ("en", "de"))
    source = str(tables / "everyday.tsv") + ("" if change else "=often")
    call = ["--languages", *languages, "--source", source, "--out", str(tables / "out.tsv")]
    assert guarded(lambda: TOOL["main"](call), "general_translation_data.py") == 2
    assert message in capsys.readouterr().err
    assert not (tables / "out.tsv").exists()


def test_a_share_of_a_source_and_only_short_pairs(tmp_path):
    table, out = tmp_path / "table.tsv", tmp_path / "out.tsv"
    lines = [f"word{'a' * number} is short\tWort{'a' * number} ist kurz" for number in range(100)] + [
        "a b c d e\tv w x y z"
    ]
    table.write_text("en\tde\n" + "\n".join(lines) + "\n", encoding="utf-8")
    call = ["--languages", "en", "de", "--out", str(out), "--most-words", "4", "--source", f"{table}=0.3"]
    TOOL["main"](call)
    pairs = [line.split("\t") for line in out.read_text(encoding="utf-8").splitlines()]
    plain = [pair for pair in pairs if "\t".join(pair) in lines]
    assert len(set(map(tuple, plain))) == 30
    assert not any(source == "a b c d e" for source, _ in pairs)


@pytest.mark.parametrize("amount", ["0", "1.5", "0.0", "-1", "x", "1001", "9" * 20])
def test_an_amount_that_is_neither_times_nor_share_is_refused(amount, tmp_path, capsys):
    call = ["--languages", "en", "de", "--out", str(tmp_path / "out.tsv"), "--source", f"table.tsv={amount}"]
    assert guarded(lambda: TOOL["main"](call), "general_translation_data.py") == 2
    assert "=TIMES or =SHARE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--out": "everyday.tsv"}, "is also a --source"),
        ({"--most-words": "0"}, "at least 1"),
        ({"--most-words": "1"}, "no pairs that fit"),
    ],
)
def test_a_source_is_never_replaced_and_no_empty_table_written(tables, capsys, monkeypatch, changes, message):
    monkeypatch.chdir(tables)
    before = (tables / "everyday.tsv").read_bytes()
    options = {"--languages": "en de", "--source": "everyday.tsv", "--out": "out.tsv", "--most-words": "60", **changes}
    call = [part for name, value in options.items() for part in (name, *value.split())]
    assert guarded(lambda: TOOL["main"](call), "general_translation_data.py") == 2
    assert message in capsys.readouterr().err
    assert (tables / "everyday.tsv").read_bytes() == before
    assert not (tables / "out.tsv").exists()
