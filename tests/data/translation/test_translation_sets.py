import gzip

import pytest

from keras_attention.data import download
from keras_attention.data.translation.pairs import load_translation_data, train_tokenizers
from keras_attention.support.errors import UserError
from keras_attention.tokenizers import CharacterTokenizer, SentencePieceTokenizer

SENTENCES = [f"sentence number {n}" for n in range(101)]
TRANSLATIONS = [text.upper() for text in SENTENCES]


@pytest.fixture
def files(tmp_path):
    (tmp_path / "train.en").write_text("\n".join(SENTENCES) + "\n", encoding="utf-8")
    (tmp_path / "train.de").write_text("\n".join(TRANSLATIONS) + "\n", encoding="utf-8")
    with gzip.open(tmp_path / "pairs.tsv.gz", "wt", encoding="utf-8") as file:
        file.writelines(f"{s}\t{t}\n" for s, t in zip(SENTENCES, TRANSLATIONS, strict=True))
    return tmp_path


def everything(data):
    return [pair for split in (data.train, data.validation, data.test) for pair in zip(*split, strict=True)]


def test_two_files_are_split_without_loss_and_always_alike(files):
    def load(seed):
        return load_translation_data(
            "files", source=str(files / "train.en"), target=str(files / "train.de"), validation_split=0.2, seed=seed
        )

    data = load(3)
    assert sorted(everything(data)) == sorted(zip(SENTENCES, TRANSLATIONS, strict=True))
    assert [len(split[0]) for split in (data.train, data.validation, data.test)] == [81, 10, 10]
    assert (data.name, data.source_language, data.target_language) == ("train", "en", "de")
    assert load(3) == data
    assert load(5).test != data.test


def test_a_repeated_pair_is_not_held_out_and_trained_on(files):
    pairs = list(zip(SENTENCES, TRANSLATIONS, strict=True))
    (files / "repeated.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs * 3), encoding="utf-8")
    data = load_translation_data(str(files / "repeated.tsv"), validation_split=0.2, seed=7)
    trained, validated, tested = (list(zip(*split, strict=True)) for split in (data.train, data.validation, data.test))
    assert (len(validated), len(tested), len(trained)) == (10, 10, 3 * 81)
    assert len({*validated, *tested}) == 20
    assert not set(trained) & {*validated, *tested}
    assert [pair for pair in pairs * 3 if pair in set(trained)] == trained  # in the order of the file


def test_a_compressed_table_is_read_like_two_files(files):
    data = load_translation_data(str(files / "pairs.tsv.gz"), source="en", target="shouting")
    assert sorted(everything(data)) == sorted(zip(SENTENCES, TRANSLATIONS, strict=True))
    assert (data.name, data.target_language) == ("pairs", "shouting")


def test_a_table_called_dates_is_a_table(files):
    table = (files / "pairs.tsv.gz").rename(files / "dates.tsv.gz")
    data = load_translation_data(str(table))
    assert data.name == "dates"
    source, target = train_tokenizers(data, 61)
    assert isinstance(source, SentencePieceTokenizer)
    assert source is target
    generated = load_translation_data("dates", train_size=11)
    assert all(isinstance(side, CharacterTokenizer) for side in train_tokenizers(generated, 61))


def test_further_pairs_are_trained_on_and_nothing_else(files):
    tables = {"more.tsv": ("sentence number 7", "ANOTHER"), "most.tsv": ("a third", "ONE")}
    for name, pair in tables.items():
        (files / name).write_text("\t".join(pair) + "\n", encoding="utf-8")
    plain = load_translation_data(str(files / "pairs.tsv.gz"), seed=3)
    data = load_translation_data(str(files / "pairs.tsv.gz"), extra=[str(files / name) for name in tables], seed=3)
    assert data.train == ([*plain.train[0], "sentence number 7", "a third"], [*plain.train[1], "ANOTHER", "ONE"])
    assert (data.validation, data.test) == (plain.validation, plain.test)
    assert data.origin["name"] == "pairs, with 1 pairs of more.tsv, with 1 pairs of most.tsv"


def test_multi30k_is_read_from_a_folder(tmp_path):
    for split in ("train", "val", "test_2016_flickr"):
        for language in ("en", "cs"):
            with gzip.open(tmp_path / f"{split}.{language}.gz", "wt", encoding="utf-8") as file:
                file.write(f"{split} {language}\n")
    data = load_translation_data("multi30k", data_dir=str(tmp_path), source="cs", target="en")
    assert data.validation == (["val cs"], ["val en"])
    assert data.test == (["test_2016_flickr cs"], ["test_2016_flickr en"])
    assert "non-commercial" in data.origin["terms"]


def test_multi30k_downloads_the_two_languages_that_are_needed(tmp_path, monkeypatch):
    content = gzip.compress(b"one\n")
    fetched = []

    def fetch(file, folder, label=""):
        fetched.append(file.url.rpartition("/")[2])
        (folder / fetched[-1]).write_bytes(content)

    monkeypatch.setenv("KERAS_ATTENTION_HOME", str(tmp_path))
    monkeypatch.setattr(download, "fetch", fetch)
    assert load_translation_data("multi30k", source="en", target="de").train == (["one"], ["one"])
    assert sorted(fetched) == sorted(
        f"{split}.{language}.gz" for split in ("train", "val", "test_2016_flickr") for language in ("de", "en")
    )


def test_tatoeba_is_read_from_a_folder(tmp_path):
    for split in ("train", "dev", "test"):
        with gzip.open(tmp_path / f"{split}.tsv.gz", "wt", encoding="utf-8") as file:
            file.write(f'en\tde\n"{split}", he said\t"{split}", sagte er\n{split}\t{split}er\n')
    data = load_translation_data("tatoeba", data_dir=str(tmp_path), source="de", target="en")
    assert data.train == (['"train", sagte er', "trainer"], ['"train", he said', "train"])
    assert (data.validation[1][1], data.test[1][1]) == ("dev", "test")
    assert (data.name, data.target_language, data.several_references) == ("tatoeba", "en", True)
    with pytest.raises(UserError, match=r"no column 'fr'. Expected one of: en, de"):
        load_translation_data("tatoeba", data_dir=str(tmp_path), source="en", target="fr")


def test_dates_are_made(tmp_path):
    data = load_translation_data("dates", train_size=211, seed=7)
    assert (len(data.train[0]), len(data.test[0])) == (211, 10_000)
    assert data.target_language == "iso"
    assert not set(data.train[1][:200]) & set(data.test[1])
    assert [len(split[0]) for split in data.shortened(13)[3:6]] == [13, 13, 13]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"data": "wmt99"}, "'wmt99'"),
        ({"data": "multi30k", "source": "ja"}, "'ja'"),
        ({"data": "tatoeba"}, "needs --data-dir"),
        ({"data": "no/such.tsv"}, "no/such.tsv"),
        ({"data": "files", "source": "no.en", "target": "no.de"}, "no.en"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(UserError, match=message):
        load_translation_data(**settings)


def test_too_few_pairs_and_wrong_shares_are_refused(files):
    (files / "short.tsv").write_text("a\tb\nc\td\n", encoding="utf-8")
    with pytest.raises(UserError, match="2 different sentence pairs"):
        load_translation_data(str(files / "short.tsv"))
    with pytest.raises(UserError, match=r"0\.7"):
        load_translation_data(str(files / "pairs.tsv.gz"), validation_split=0.7)
