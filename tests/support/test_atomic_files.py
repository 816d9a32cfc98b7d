"""A file appears whole or not at all, whatever happens while it is written."""

import os
import resource

import pytest

from keras_attention.support.atomic_files import check_place, whole_file
from keras_attention.support.errors import UserError


def test_text_and_bytes_are_written_as_they_are(tmp_path):
    with whole_file(tmp_path / "text") as file:
        file.write("é\r\n\n")
    with whole_file(tmp_path / "bytes", "wb") as file:
        file.write(b"\xff")
    assert (tmp_path / "text").read_bytes() == "é\r\n\n".encode()
    assert (tmp_path / "bytes").read_bytes() == b"\xff"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bytes", "text"]


def test_the_mode_is_that_of_any_new_file(tmp_path):
    before = os.umask(0o027)
    try:
        with whole_file(tmp_path / "file") as file:
            file.write("x")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(19, "No such device"), ValueError])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, error):
    (tmp_path / "file").write_text("old")

    def fail():
        with whole_file(tmp_path / "file") as file:
            file.write("half")
            raise error

    with pytest.raises(error if isinstance(error, type) else type(error)):
        fail()
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


@pytest.fixture
def small_disk():
    """No file may have more than 997 bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (997, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_an_error_with_the_name_of_the_file(tmp_path, small_disk):
    def write():
        with whole_file(tmp_path / "file") as file:
            file.write("x" * 100_000)

    with pytest.raises(UserError, match="file cannot be written: File too large"):
        write()
    assert not list(tmp_path.iterdir())


def test_a_link_stays_and_a_pipe_is_not_replaced(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with whole_file(tmp_path / "link") as file:
        file.write("x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "x"
    with whole_file("/dev/null") as file:
        file.write("x")
    assert not os.path.isfile("/dev/null")


def test_places_where_nothing_can_be_written(tmp_path, monkeypatch):
    for path, reason in ((tmp_path, "it is a folder"), (tmp_path / "no" / "file", "its folder does not exist")):
        with pytest.raises(UserError, match=reason):
            check_place(path)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UserError, match="not writable"):
        check_place(tmp_path / "file")
