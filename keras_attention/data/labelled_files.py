"""Labelled files: in a folder with a sub-folder for each label, or named in a table."""

import os
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from keras_attention.data.files import lines_of
from keras_attention.data.series.series_files import LABELS
from keras_attention.data.tables.raw_rows import BadRow, whole_rows
from keras_attention.data.tables.table import JSON, format_of, read_table, table_content
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
    _check_kind(kind, kinds)
    paths_of: dict[str, list[Path]] = {name: [] for name in kinds}
    others = []
    for path in _files(folder):
        name = _kind_of(path.name, kinds)
        (others if name is None else paths_of[name]).append(path)
    kind = kind or _only_kind(folder, {name: len(paths) for name, paths in paths_of.items()}, kinds)
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


def labelled_table(table: str | Path, kinds: dict[str, tuple[str, ...]]) -> LabelledFiles | None:
    """Finds the files that a table names, and their labels.

    Args:
        table: str or Path of a CSV or TSV file with a header. The labels are in the column that is called label,
            labels, class, target or y, or in the only one beside that of the names.
        kinds: see `labelled_files`.

    Returns:
        LabelledFiles, in the order of the table; None if its first row has no name of such a file.

    Raises:
        UserError: if the column of the labels is not clear, a row cannot be read, or a file does not exist.
    """
    # A table of series may be large, and is read by other rules: its first row decides.
    if format_of(table) in (None, JSON) or not any(
        ending in line.lower() for line in islice(lines_of(table), 1, 2) for some in kinds.values() for ending in some
    ):
        return None
    columns, rows = whole_rows(table, *table_content(table, ()), ())
    _, first = next(rows, (None, []))
    fields = [] if isinstance(first, BadRow) else zip(columns, first, strict=True)
    name, kind = next(
        ((column, kind) for column, field in fields if (kind := _kind_of(field.strip(), kinds))), (None, "")
    )
    if name is None:
        return None
    others = [column for column in columns if column != name]
    usual = [column for column in others if column.lower() in LABELS]
    if not usual and len(others) != 1:
        raise UserError(f"{table}: the column of the labels is not clear. Call it label.")
    read = read_table(table, name, (usual or others)[0])
    files = named_files(table, read.texts, kind, kinds[kind], read.lines)
    summary = f"{table}: {len(files):,} {kind}, {len(set(read.labels)):,} labels"
    return LabelledFiles(kind, files, read.labels, summary)


def kind_of_names(source: str | Path, names: Sequence[str], kinds: dict[str, tuple[str, ...]]) -> str | None:
    """The kind of files that texts are the names of, by their ends; None if not more than half of them are.

    Args:
        source: str or Path, where the texts are from, for messages.
        names: sequence of str.
        kinds: see `labelled_files`.

    Raises:
        UserError: if they are of several kinds.
    """
    found = Counter(_kind_of(name.strip(), kinds) for name in names)
    return None if 2 * found[None] >= len(names) else _only_kind(source, {kind: found[kind] for kind in kinds}, kinds)


def named_files(
    table: str | Path,
    names: Sequence[str],
    kind: str,
    endings: tuple[str, ...],
    lines: Sequence[int] | None = None,
) -> list[str]:
    """The paths of the files whose names are a column of a table.

    Args:
        table: str or Path; names are relative to its folder.
        names: sequence of str.
        kind, endings: the name of their kind, and the ends of their names.
        lines: sequence of int, the line of each name in the table, or None.

    Raises:
        UserError: if a name has another end, or there is no such file.
    """
    paths = []
    for row, name in enumerate(names):
        path = named_file(table, name, endings)
        if path is None:
            where = f"row {row + 1}" if lines is None else f"line {lines[row]}"
            missing = quoted(os.path.join(Path(table).parent, name), 200)
            raise UserError(
                f"{table}, {where}: there is no file {missing} of the kind {kind}. Expected: the name of a file "
                f"({endings_of(endings)}), from the folder of the table."
            )
        paths.append(path)
    return paths


def named_file(table: str | Path, name: str, endings: tuple[str, ...]) -> str | None:
    """The path of a file that a table names; None if the name has another end, or there is no such file.

    Args:
        table, endings: see `named_files`.
        name: str; blanks around it do not count.
    """
    path = os.path.join(Path(table).parent, name.strip())
    return path if path.lower().endswith(endings) and os.path.isfile(path) else None


def _check_kind(kind, kinds):
    if kind is not None and kind not in kinds:
        raise UserError(f"There is no kind of files {quoted(kind)}. Known: {', '.join(kinds)}")


def _kind_of(name, kinds):
    """The kind of a file by the end of its name, or None."""
    return next((kind for kind, endings in kinds.items() if name.lower().endswith(endings)), None)


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


def _only_kind(source, counts_of, kinds):
    present = {name: count for name, count in counts_of.items() if count}
    if not present:
        known = " or ".join(f"{name} ({endings_of(endings)})" for name, endings in kinds.items())
        raise UserError(f"{source} has no {known}. Expected: a folder for each label, with such files.")
    if len(present) > 1:
        counts = " and ".join(f"{count:,} {name}" for name, count in present.items())
        raise UserError(f"{source} has {counts}. Choose with --kind {' or --kind '.join(present)}.")
    return next(iter(present))


def _empty_folders(folder, labels):
    return sorted(
        path.name for path in folder.iterdir() if path.is_dir() and path.name not in labels | {"__MACOSX"}
        if not path.name.startswith(".")
    )  # fmt: skip
