"""A folder of files whose labels are the names of its sub-folders, or the beginnings of the files' names."""

import os
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from keras_attention.support.errors import UserError, counted, quoted

MOST_FILES = 1_000_000


class LabelledFiles(NamedTuple):
    """Files with one label each.

    Attributes:
        kind: str, one of the kinds that `labelled_files` was given.
        files: list of str.
        labels: list of str.
        summary: str, one line for the user.
    """

    kind: str
    files: list[str]
    labels: list[str]
    summary: str


def labelled_files(folder: str | Path, kinds: dict[str, tuple[str, ...]], kind: str | None = None) -> LabelledFiles:
    """Finds the files of a folder and their labels.

    The label of a file is the name of the sub-folder of `folder` that it is in, at any depth. If there are no such
    files, it is the beginning of the file's name, up to the first "_": "7_theo_3.wav" has the label "7". Hidden files
    and folders are left out, as are files with other endings, which are counted in the summary.

    Args:
        folder: str or Path.
        kinds: dict from the name of a kind, such as "images", to the endings of its files, in lower case.
        kind: str, the kind to look for; None: the only one that there is.

    Returns:
        LabelledFiles, in the order of their names.

    Raises:
        UserError: if there are no such files, or of several kinds, or only one label.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder." if folder.exists() else f"There is no folder {folder}.")
    if kind is not None and kind not in kinds:
        raise UserError(f"There is no kind of files {quoted(kind)}. Known: {', '.join(kinds)}")
    paths_of: dict[str, list[Path]] = {name: [] for name in kinds}
    others = []
    for path in _files(folder):
        name = next((name for name, endings in kinds.items() if path.name.lower().endswith(endings)), None)
        (others if name is None else paths_of[name]).append(path)
    kind = kind or _only_kind(folder, paths_of, kinds)
    if not paths_of[kind]:
        raise UserError(
            f"{folder} has no {kind}. Expected: a folder for each label, with files {endings_of(kinds[kind])}."
        )
    inside = [path for path in paths_of[kind] if path.parent != folder]
    if inside:
        files, labels = inside, [path.relative_to(folder).parts[0] for path in inside]
        place = "folder"
    else:
        files = [path for path in paths_of[kind] if "_" in path.name]
        labels, place = [path.name.partition("_")[0] for path in files], "beginning of a name"
    if len(set(labels)) < 2:
        raise UserError(
            f"{folder} has {counted(len(paths_of[kind]), kind.removesuffix('s'))} with "
            f"{'one label' if labels else 'no label'}. Expected: a folder for each of two labels or more."
        )
    left_out = len(others) + sum(map(len, paths_of.values())) - len(files)
    skipped = f", skipped {counted(left_out, 'other file')}" if left_out else ""
    summary = f"{folder}: {len(files):,} {kind}, {len(set(labels)):,} labels (each a {place}){skipped}"
    empty = _empty_folders(folder, set(labels)) if inside else []
    if empty:
        summary += f"; no {kind} in {', '.join(empty[:3])}{', ...' * (len(empty) > 3)}"
    return LabelledFiles(kind, [str(path) for path in files], labels, summary)


def endings_of(endings: tuple[str, ...]) -> str:
    """Endings of files as text: ".png, .jpg or .bmp"."""
    return f"{', '.join(endings[:-1])} or {endings[-1]}"


def _files(folder):
    """The files below a folder in the order of their names, without hidden ones; links to folders are not followed."""
    count = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(place, name)
            if not name.startswith(".") and path.is_file():
                count += 1
                if count > MOST_FILES:
                    raise UserError(f"{folder} has more than {MOST_FILES:,} files.")
                yield path


def _only_kind(folder, paths_of, kinds):
    present = Counter({name: len(paths) for name, paths in paths_of.items() if paths})
    if not present:
        known = " or ".join(f"{name} ({endings_of(endings)})" for name, endings in kinds.items())
        raise UserError(f"{folder} has no {known}. Expected: a folder for each label, with such files.")
    if len(present) > 1:
        counts = " and ".join(f"{count:,} {name}" for name, count in present.items())
        raise UserError(f"{folder} has {counts}. Choose with --kind {' or --kind '.join(present)}.")
    return next(iter(present))


def _empty_folders(folder, labels):
    return sorted(
        path.name for path in folder.iterdir() if path.is_dir() and path.name not in labels | {"__MACOSX"}
        if not path.name.startswith(".")
    )  # fmt: skip
