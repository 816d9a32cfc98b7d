"""Finding models: by path, in the folders of KERAS_ATTENTION_ZOO, in a wheel and in a checkout."""

import pytest

import keras_attention
from keras_attention.support.errors import UserError
from keras_attention.zoo import registry as finding
from keras_attention.zoo.registry import find_entry, list_models, zoo_folders


def entry(folder):
    """What finding takes for an entry: a folder with a manifest, sound or not."""
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    return folder


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    """A zoo of two and a half entries, the only one there is."""
    monkeypatch.setattr(finding.zoo_folders, "__defaults__", (tmp_path / "nowhere",))
    monkeypatch.setenv("KERAS_ATTENTION_ZOO", str(tmp_path / "zoo"))
    entry(tmp_path / "zoo" / "rnn_dates")
    entry(tmp_path / "zoo" / "rnn_multi30k")
    entry(tmp_path / "zoo" / ".rnn_dates-1234")  # a write that was killed
    (tmp_path / "zoo" / "notes").mkdir()
    return tmp_path / "zoo"


def test_names(zoo):
    assert list_models() == keras_attention.list_models() == ["rnn_dates", "rnn_multi30k"]
    assert find_entry("rnn_dates") == zoo / "rnn_dates"


def test_paths(zoo, tmp_path, monkeypatch):
    elsewhere = entry(tmp_path / "elsewhere" / "mine")
    assert find_entry(elsewhere) == find_entry(str(elsewhere)) == elsewhere
    monkeypatch.chdir(elsewhere.parent)
    assert find_entry("mine").resolve() == elsewhere
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_entry("~/elsewhere/mine") == elsewhere
    with pytest.raises(UserError, match=r"notes' is not a saved model: it has no manifest\.json"):
        find_entry(zoo / "notes")


def test_several_zoos(zoo, tmp_path, monkeypatch):
    first = entry(tmp_path / "first" / "rnn_dates")
    monkeypatch.setenv("KERAS_ATTENTION_ZOO", f"{tmp_path / 'first'}:{tmp_path / 'missing'}::{zoo}")
    assert find_entry("rnn_dates") == first
    assert find_entry("rnn_multi30k") == zoo / "rnn_multi30k"


def test_unknown_name(zoo):
    with pytest.raises(UserError, match=r"no model 'rnn_date'.*Did you mean rnn_dates"):
        find_entry("rnn_date")
    with pytest.raises(UserError, match=r"no model 'xyz'.*Known models: rnn_dates, rnn_multi30k\.$"):
        find_entry("xyz")


def test_words_of_a_name_stand_for_the_only_one_that_has_them(zoo):
    assert find_entry("multi30k") == find_entry("MULTI30K") == zoo / "rnn_multi30k"
    with pytest.raises(UserError, match="Did you mean rnn_multi30k?"):
        find_entry("multi")
    with pytest.raises(UserError, match="Did you mean rnn_dates, rnn_multi30k?"):
        find_entry("rnn")
    with pytest.raises(UserError, match="no model 'da'"):  # too short to be meant
        find_entry("da")


def test_the_name_of_an_earlier_version(zoo, monkeypatch):
    monkeypatch.setattr(finding, "RENAMED", {"gru_dates": "rnn_dates", "gru_times": "rnn_times"})
    assert find_entry("gru_dates") == zoo / "rnn_dates"
    with pytest.raises(UserError, match="no model 'gru_times'"):
        find_entry("gru_times")
    entry(zoo / "gru_dates")
    assert find_entry("gru_dates") == zoo / "gru_dates"


def test_a_removed_model_is_answered_with_what_to_use(zoo):
    with pytest.raises(UserError, match="^The model minilm_small_mrpc was removed: .*docs/fine_tune.md.$"):
        find_entry("minilm_small_mrpc")
    for pair in ("en_fr", "fr_en"):
        with pytest.raises(UserError, match=f"tatoeba_{pair} was removed: use translator_small_{pair}"):
            find_entry(f"transformer_tiny_tatoeba_{pair}")
    entry(zoo / "minilm_small_mrpc")
    assert find_entry("minilm_small_mrpc") == zoo / "minilm_small_mrpc"


def test_a_large_zoo_is_never_listed(zoo):
    for number in range(400):
        entry(zoo / f"model_{number}")
    for name in ("model", "nothing like it", "rnn_date_5", "x" * 5000, "x/" * 5000):
        with pytest.raises(UserError) as error:
            find_entry(name)
        assert str(error.value).count("model_") <= 5
        assert len(str(error.value)) < 400


@pytest.mark.parametrize("name", ["x" * 5000, "x" * 300, "/" + "x" * 300, "~" + "x" * 300])
def test_a_name_that_no_file_system_could_have(zoo, name):
    with pytest.raises(UserError, match="no model"):
        keras_attention.load(name)


@pytest.mark.parametrize("name", [None, 3, b"rnn_dates", "", " ", "\0", "a\0b"])
def test_values_other_than_names_are_refused(zoo, name):
    with pytest.raises(UserError, match="name or folder of a model|no model"):
        find_entry(name)


def test_zoo_of_a_wheel_and_of_a_checkout(tmp_path, monkeypatch):
    monkeypatch.delenv("KERAS_ATTENTION_ZOO", raising=False)
    wheel = tmp_path / "site-packages" / "keras_attention"
    (wheel / "saved_models").mkdir(parents=True)
    (tmp_path / "site-packages" / "saved_models").mkdir()  # of somebody else
    assert zoo_folders(wheel) == [wheel / "saved_models"]
    checkout = tmp_path / "checkout"
    (checkout / "keras_attention").mkdir(parents=True)
    (checkout / "saved_models").mkdir()
    (checkout / "setup.py").touch()
    assert zoo_folders(checkout / "keras_attention") == [checkout / "saved_models"]


def test_this_package_has_a_zoo(monkeypatch):
    monkeypatch.delenv("KERAS_ATTENTION_ZOO", raising=False)
    assert len(zoo_folders()) == 1
