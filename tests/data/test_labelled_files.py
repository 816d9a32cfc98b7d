"""Folders of labelled files: sub-folders or beginnings of names are labels; other files are counted."""

import re

import pytest

from keras_attention.data.labelled_files import kind_of_names, labelled_files, labelled_table
from keras_attention.support.errors import UserError

KINDS = {"images": (".png", ".jpg"), "sounds": (".wav", ".ogg")}


def write(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def test_sub_folders_are_labels(tmp_path):
    names = (
        "dog/3.PNG",
        "dog/2021/1.jpg",
        "cat/2.png",
        "cat/.hidden.png",
        ".git/x.png",
        "notes.txt",
        "cover.png",
        "emu/a",
    )
    rows = labelled_files(write(tmp_path, *names), KINDS)
    assert rows.kind == "images"
    assert [name.removeprefix(f"{tmp_path}/") for name in rows.files] == [
        "cat/2.png",
        "dog/3.PNG",
        "dog/2021/1.jpg",
    ]
    assert rows.labels == ["cat", "dog", "dog"]
    assert rows.summary.endswith("3 images, 2 labels (each a folder), skipped 3 other files; no images in emu")


def test_names_begin_with_labels(tmp_path):
    examples = labelled_files(write(tmp_path, "7_theo_0.wav", "7_theo_1.wav", "3_george_0.wav", "noise.wav"), KINDS)
    assert (examples.kind, examples.labels) == ("sounds", ["3", "7", "7"])
    assert "skipped 1 other file" in examples.summary


def test_the_kind_chooses_among_files(tmp_path):
    write(tmp_path, "a/1.png", "b/2.png", "a/1.wav", "b/2.wav")
    with pytest.raises(UserError, match=r"has 2 images and 2 sounds. Choose with --kind images or --kind sounds"):
        labelled_files(tmp_path, KINDS)
    assert labelled_files(tmp_path, KINDS, "sounds").kind == "sounds"


@pytest.mark.parametrize(
    ("names", "kind", "message"),
    [
        ((), None, "has no images (.png or .jpg) or sounds (.wav or .ogg). Expected: a folder for each label"),
        (("a/1.wav", "b/2.wav"), "images", "has no images. Expected: a folder for each label, with files .png or .jpg"),
        (("a/1.png", "a/2.png"), None, "has 2 images with one label. Expected: a folder for each of two labels"),
        (("1.png", "2.png"), None, "has 2 images with no label"),
        (("a/1.png",), "films", "There is no kind of files 'films'. Known: images, sounds"),
    ],
)
def test_folders_without_a_task(tmp_path, names, kind, message):
    with pytest.raises(UserError, match=re.escape(message)) as error:
        labelled_files(write(tmp_path, *names), KINDS, kind)
    assert "\n" not in str(error.value)


def test_links_to_folders_are_not_followed(tmp_path):
    write(tmp_path, "a/1.png", "b/2.png")
    (tmp_path / "a" / "again").symlink_to(tmp_path)
    assert len(labelled_files(tmp_path, KINDS).files) == 2


def test_a_file_is_no_folder(tmp_path):
    with pytest.raises(UserError, match="is not a folder"):
        labelled_files(write(tmp_path, "a.png") / "a.png", KINDS)
    with pytest.raises(UserError, match="There is no folder"):
        labelled_files(tmp_path / "nowhere", KINDS)


@pytest.mark.parametrize("header", ["speaker,file,class", "target,name"])
def test_a_table_names_files_of_its_folder(tmp_path, header):
    write(tmp_path, "far/1.wav", "2.WAV")
    rows = ["theo,far/1.wav,cat", "9,2.WAV,dog"] if "file" in header else ["cat,far/1.wav", "dog,2.WAV"]
    (tmp_path / "t.csv").write_text("\n".join([header, *rows, ""]))
    examples = labelled_table(tmp_path / "t.csv", KINDS)
    assert (examples.kind, examples.labels) == ("sounds", ["cat", "dog"])
    assert examples.files == [str(tmp_path / "far/1.wav"), str(tmp_path / "2.WAV")]
    assert examples.summary.endswith("2 sounds, 2 labels")


def test_blanks_around_names_do_not_count(tmp_path):
    write(tmp_path, "1.wav", "2.wav")
    (tmp_path / "t.csv").write_text("file,label\n1.wav ,cat\n 2.wav,dog\n")
    assert labelled_table(tmp_path / "t.csv", KINDS).files == [str(tmp_path / "1.wav"), str(tmp_path / "2.wav")]
    assert kind_of_names("t.csv", ["1.wav ", "2.wav\t", "a text"], KINDS) == "sounds"


@pytest.mark.parametrize("content", ["1,2,3,a\n4,5,6,b\n", "0,1,label\n0.5,0.25,a\n", "file,label\n", ""])
def test_a_table_of_numbers_names_no_files(tmp_path, content):
    (tmp_path / "t.csv").write_text(content or "x,y\n\n")
    assert labelled_table(tmp_path / "t.csv", KINDS) is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("file,mood\n1.wav,a\n9.wav,b\n", "line 3: there is no file '{}/9.wav' of the kind sounds. Expected:"),
        ("file,mood\n1.wav,a\n2.png,b\n", "line 3: there is no file '{}/2.png' of the kind sounds. Expected:"),
        ("file,mood,age\n1.wav,a,3\n", "the column of the labels is not clear. Call it label."),
        ("file,mood\n1.wav,a\n2.wav\n", "line 3, column 'mood': too few fields"),
    ],
)
def test_tables_of_names_that_are_wrong(tmp_path, content, message):
    write(tmp_path, "1.wav", "2.wav", "2.png")
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(UserError, match=re.escape(message.format(tmp_path))) as error:
        labelled_table(tmp_path / "t.csv", KINDS)
    assert "\n" not in str(error.value)
