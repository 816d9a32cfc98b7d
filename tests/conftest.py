"""One thread a process where several processes share the cores (`make test`), and a zoo of one entry."""

import os

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    """A folder with one entry, `tiny`."""
    from zoo.tiny_entry import write_tiny_entry  # here, for it loads TensorFlow

    folder = tmp_path_factory.mktemp("zoo")
    write_tiny_entry(folder / "tiny")
    return folder
