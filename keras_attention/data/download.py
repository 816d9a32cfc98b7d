"""Named data sets: downloaded from their official addresses, checked by sha256, and cached."""

import http.client
import os
import sys
import urllib.error
import urllib.request
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from keras_attention.support.atomic_files import locked, tidy, whole_file
from keras_attention.support.errors import UserError

TIMEOUT = 30  # seconds without an answer
CHUNK = 1 << 16  # bytes


class RemoteFile(NamedTuple):
    """A file of a data set.

    Attributes:
        url: str, its official address; the part after the last slash is its name in the cache.
        size: int, bytes.
        sha256: str, 64 hexadecimal digits.
    """

    url: str
    size: int
    sha256: str


MULTI30K_ADDRESS = "https://raw.githubusercontent.com/multi30k/dataset/"
MULTI30K_ADDRESS += "a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw/"
MULTI30K_FILES = (
    ("test_2016_flickr.cs.gz", 22_572, "200a4a74cc9560f051924abb9803be008d1908d77f747e9141aeb86dfd2797f1"),
    ("test_2016_flickr.de.gz", 22_890, "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8"),
    ("test_2016_flickr.en.gz", 21_077, "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9"),
    ("test_2016_flickr.fr.gz", 22_310, "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90"),
    ("train.cs.gz", 593_827, "a65adb8b32e3bc664f21ecba7a6e7f6950fd1f405e135f7c312faabdb6255077"),
    ("train.de.gz", 637_044, "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6"),
    ("train.en.gz", 568_929, "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f"),
    ("train.fr.gz", 604_242, "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c"),
    ("val.cs.gz", 22_096, "b63226e05c4bd5dd6a42897d74b86a1b9d2c31498252c572b1ea7f7996927fcc"),
    ("val.de.gz", 24_681, "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a"),
    ("val.en.gz", 21_650, "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28"),
    ("val.fr.gz", 23_001, "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9"),
)
DATASETS = {
    "multi30k": tuple(RemoteFile(MULTI30K_ADDRESS + name, size, digest) for name, size, digest in MULTI30K_FILES),
    "shakespeare": (
        RemoteFile(
            "https://raw.githubusercontent.com/karpathy/char-rnn/"
            "d1d7aa34fdb3626174bce1d753e6cc6845ce7087/data/tinyshakespeare/input.txt",
            1_115_394,
            "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
        ),
    ),
}


def named_dataset(name, cache_dir=None, files=None):
    """Returns the folder with the files of a data set, fetching those that are missing or damaged.

    Args:
        name: str, a key of DATASETS.
        cache_dir: str, Path or None. The set goes into the folder `name` in it. None stands for the folder in the
            environment variable KERAS_ATTENTION_HOME or, without it, for ~/.cache/keras_attention.
        files: names of the files that are needed, or None for all files of the set.

    Returns:
        Path.

    Raises:
        UserError: if the name is unknown, a file cannot be fetched or has unexpected content, or the folder cannot be
            written. Files are complete or absent.
    """
    if name not in DATASETS:
        raise UserError(f"There is no data set {name!r} to download. Expected one of: {', '.join(DATASETS)}.")
    home = cache_dir or os.environ.get("KERAS_ATTENTION_HOME") or os.path.expanduser("~/.cache/keras_attention")
    if str(home).startswith("~"):
        raise UserError("There is no home folder to keep data in. Name a folder in KERAS_ATTENTION_HOME.")
    folder, wanted = Path(home) / name, [file for file in DATASETS[name] if files is None or _file_name(file) in files]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not _missing(wanted, folder):
            tidy(folder)
            return folder
        with locked(folder, wait=lambda reason: print(reason, file=sys.stderr)):
            missing = _missing(wanted, folder)  # without those that another process has downloaded in the meantime
            for number, file in enumerate(missing, start=1):
                fetch(file, folder, label=f"{name} {number}/{len(missing)}")
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({error.strerror or error}). Choose another folder.") from error
    return folder


def fetch(file, folder, label=""):
    """Downloads one file under a temporary name, checks it, and renames it. Call it while holding the lock of `folder`.

    Args:
        file: RemoteFile.
        folder: Path of an existing folder.
        label: str, shown before the file's name in the line of progress on standard error.

    Returns:
        Path of the file.

    Raises:
        UserError: if the download fails or has unexpected content, or the file cannot be written.
    """
    path = folder / _file_name(file)
    hasher, received = sha256(), 0
    with whole_file(path, "wb", lock=False) as output:
        for chunk in _chunks(file):
            output.write(chunk)
            hasher.update(chunk)
            received += len(chunk)
            _show_progress(f"{label} {path.name}".strip(), received, file.size)
        if hasher.hexdigest() != file.sha256:
            raise UserError(
                f"{file.url}: the downloaded file has sha256 {hasher.hexdigest()}. Expected: {file.sha256}. "
                "Download the data elsewhere and pass its folder with --data-dir."
            )
    return path


def _chunks(file):
    """Yields the bytes of a RemoteFile; raises UserError if there are more or fewer than expected."""
    received = 0
    try:
        with urllib.request.urlopen(file.url, timeout=TIMEOUT) as answer:
            while chunk := answer.read(CHUNK):
                received += len(chunk)
                if received > file.size:
                    break
                yield chunk
    except urllib.error.HTTPError as error:
        raise _unavailable(file, f"the server answers {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        raise _unavailable(file, f"{getattr(error, 'reason', error)!s}, after {received:,} bytes") from error
    if received != file.size:
        received_size = f"more than {file.size:,} bytes" if received > file.size else f"an end after {received:,} bytes"
        raise _unavailable(file, f"found {received_size}, expected {file.size:,}")


def _unavailable(file, reason):
    return UserError(
        f"{file.url}: cannot be downloaded ({reason}). Try again later, or download the data elsewhere and pass its "
        "folder with --data-dir."
    )


def _show_progress(title, received, size):
    """Updates one line on a terminal; elsewhere prints a line when the download is complete."""
    if sys.stderr.isatty() or received == size:
        end = "\n" if received == size else ""
        print(f"\r{title}: {received / 1e6:.1f} of {size / 1e6:.1f} MB", end=end, file=sys.stderr, flush=True)


def _file_name(file):
    return file.url.rpartition("/")[2]


def _missing(files, folder):
    """Those of the RemoteFiles that are missing or damaged in the folder."""
    return [file for file in files if not _is_intact(folder / _file_name(file), file)]


def _is_intact(path, file):
    """Whether the file exists with the expected size and sha256."""
    if not path.is_file() or path.stat().st_size != file.size:
        return False
    return sha256(path.read_bytes()).hexdigest() == file.sha256
