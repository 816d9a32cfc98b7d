"""Interactions of users with items: generated ones, MovieLens-100K, or a table."""

from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path

import numpy as np

from keras_attention.data.files import lines_of
from keras_attention.data.tables.raw_rows import BadRow, delimited_rows
from keras_attention.data.tables.table import table_content
from keras_attention.support.errors import UserError, quoted

MOVIELENS = {
    "name": "MovieLens-100K (Harper and Konstan 2015)",
    "terms": "research; no redistribution and no commercial use without permission",
    "link": "https://grouplens.org/datasets/movielens/100k",
}
DAY = 86_400  # seconds


@dataclass(frozen=True, eq=False)
class Interactions:
    """Answers of users to items, ordered by user and time.

    Attributes:
        users: int32 array (N,), numbers of users from 0, ascending.
        items: int32 array (N,), ids of items from 1.
        answers: int32 array (N,), ids of answers from 1, bad ones first: stars, or 1 for "no" and 2 for "yes".
        first_good: int, the lowest id of a good answer.
        times: float64 array (N,), seconds, ascending for each user.
        categories: int32 array (items + 1, C), the category ids of each item from 1; 0 is padding.
        profiles: int32 array (users, P), one value id from 1 for each field; the last is the user's own. All fields
            share the ids.
        item_names: list of str, by item id; "" for 0.
        category_names: list of str, by id.
        num_answers: int, answer ids including 0.
        num_profile_values: int, value ids including 0.
    """

    users: np.ndarray
    items: np.ndarray
    answers: np.ndarray
    first_good: int
    times: np.ndarray
    categories: np.ndarray
    profiles: np.ndarray
    item_names: list
    category_names: list
    num_answers: int
    num_profile_values: int

    def __len__(self):
        return len(self.users)

    @property
    def liked(self) -> np.ndarray:
        """Bool array (N,), whether the answer is a good one."""
        return self.answers >= self.first_good


def item_vectors(data: Interactions, known: np.ndarray, width: int, scale: float = 0.1, seed: int = 0) -> np.ndarray:
    """Vectors of the items from who answered them, whatever the answers: near each other for the same users.

        R_ui = 1 / sqrt(items of u) if u answered i, else 0        R ~ U S V'        vector_i = sqrt(S) V_i

    Args:
        data: Interactions.
        known: int array, positions of the interactions that may be used.
        width: int > 0 (D).
        scale: float > 0, root mean square of all values.
        seed: int >= 0, of the randomized decomposition.

    Returns:
        float32 array (items + 1, D), 0 for padding and items without an answer. With fewer than D users or items, the
        last values are 0.

    Source: the truncated singular value decomposition of Deerwester et al. (1990), with users in place of documents and
    items in place of terms, as Cremonesi et al. (2010), https://doi.org/10.1145/1864708.1864721, recommend by.
    """
    from scipy.sparse import csr_array
    from sklearn.utils.extmath import randomized_svd

    users, items = data.users[known], data.items[known]
    shape = len(data.profiles), len(data.item_names)
    values = 1 / np.sqrt(np.bincount(users, minlength=shape[0])[users])
    rank = min(width, *shape)
    _, sizes, axes = randomized_svd(csr_array((values, (users, items)), shape), rank, random_state=seed)
    vectors = np.zeros((shape[1], width))
    vectors[:, :rank] = axes.T * np.sqrt(sizes)
    return (scale * vectors / np.sqrt(np.square(vectors).mean())).astype("float32")


def arranged(
    users, items, answers, times, item_names, *, num_answers, first_good, categories=None, profiles=None, num_values=1
):
    """Interactions from columns in any order; `categories`: list of the names of each item's, from id 1."""
    users, items, times = (np.asarray(column) for column in (users, items, times))
    order = np.lexsort((np.arange(len(users)), times, users))
    categories = categories or [()] * (len(item_names) - 1)
    category_names = ["", *sorted({name for names in categories for name in names})]
    ids = {name: number for number, name in enumerate(category_names)}
    table = np.zeros((len(item_names), max(1, *map(len, categories))), "int32")
    for row, names in zip(table[1:], categories, strict=True):
        row[: len(names)] = [ids[name] for name in names]
    answers, numbers = np.asarray(answers, "int32"), np.arange(users.max() + 1)[:, None]
    profiles = np.zeros((len(numbers), 0)) if profiles is None else np.asarray(profiles)
    return Interactions(
        users=users[order].astype("int32"),
        items=items[order].astype("int32"),
        answers=answers[order],
        first_good=first_good,
        times=times[order].astype("float64"),
        categories=table,
        profiles=np.concatenate([profiles, num_values + numbers], axis=1).astype("int32"),
        item_names=item_names,
        category_names=category_names,
        num_answers=num_answers,
        num_profile_values=num_values + len(numbers),
    )


def generate_interactions(num_users: int = 800, num_items: int = 300, seed: int = 0) -> Interactions:
    """Users whose taste changes: they like what resembles the things that they liked last.

    Each item has one or two of eight categories and a quality. Each user begins with the taste of an age group, and is
    more or less easily pleased. At a random 3 % of the steps, a few days pass, and the taste moves to another category.
    A good answer ("yes") has probability sigmoid(1.5 quality + pleased + 3.5 match - 1.5), where the match is 1 if a
    category of the item is the current taste.

    Args:
        num_users: int > 0.
        num_items: int > 0.
        seed: int >= 0.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    kinds = ("comedy", "crime", "drama", "fantasy", "horror", "music", "nature", "romance")
    of_item = [random.choice(len(kinds), size=1 + random.integers(2), replace=False) for _ in range(num_items)]
    quality = random.normal(0, 0.6, num_items)
    groups = random.integers(1, 5, num_users)
    users, items, answers, times = [], [], [], []
    for user in range(num_users):
        taste, pleased, clock = 2 * groups[user] - 1 - random.integers(2), random.normal(0, 0.6), 0.0
        for item in random.permutation(num_items)[: random.integers(60, 101)]:
            clock += random.exponential(600.0)
            if random.random() < 0.03:
                taste, clock = random.integers(len(kinds)), clock + random.exponential(3.0 * DAY)
            score = 1.5 * quality[item] + pleased + 3.5 * (taste in of_item[item]) - 1.5
            users.append(user)
            items.append(item + 1)
            answers.append(1 + (random.random() < 1 / (1 + np.exp(-score))))
            times.append(clock)
    categories = [tuple(kinds[number] for number in sorted(numbers)) for numbers in of_item]
    return arranged(
        users,
        items,
        answers,
        times,
        ["", *(f"{' and '.join(kinds)} {number}" for number, kinds in enumerate(categories, start=1))],
        num_answers=3,
        first_good=2,
        categories=categories,
        profiles=groups[:, None],
        num_values=5,
    )


def read_movielens(folder: str | Path) -> Interactions:
    """Reads MovieLens-100K: the files u.data, u.item and u.user of GroupLens, or ml-100k.inter, .item and .user.

    Four or five stars are a good answer. A profile is age group, gender and occupation.

    Raises:
        UserError: if a file is missing, or a line is not as expected.
    """
    folder = Path(folder)
    original = (folder / "u.data").is_file()
    if not original and not (folder / "ml-100k.inter").is_file():
        raise UserError(
            f"{folder}: there is no u.data and no ml-100k.inter. Expected: the folder of MovieLens-100K, from "
            f"{MOVIELENS['link']}."
        )
    if original:
        genres = [line.split("|")[0] for line in lines_of(folder / "u.genre") if line]
        films = {
            row[0]: (row[1], [genres[i] for i, flag in enumerate(row[5:24]) if flag == "1"])
            for row in _rows(folder / "u.item", "|", 24, "latin-1")
        }
        people = {row[0]: row[1:4] for row in _rows(folder / "u.user", "|", 5)}
        ratings = _rows(folder / "u.data", "\t", 4)
    else:
        films = {
            row[0]: (f"{row[1]} ({row[2]})", row[3].split()) for row in _rows(folder / "ml-100k.item", "\t", 4)[1:]
        }
        people = {row[0]: row[1:4] for row in _rows(folder / "ml-100k.user", "\t", 5)[1:]}
        ratings = _rows(folder / "ml-100k.inter", "\t", 4)[1:]
    item_ids = {name: number for number, name in enumerate(films, start=1)}
    user_ids = {name: number for number, name in enumerate(people)}
    try:
        columns = [(user_ids[u], item_ids[i], round(float(stars)), float(when)) for u, i, stars, when in ratings]
        ages = [min(6, int(age) // 10) for age, *_ in people.values()]
    except (KeyError, ValueError) as error:
        raise UserError(
            f"{folder}: found {quoted(error.args[0])}. Expected: known users and films, and numbers."
        ) from error
    users, items, stars, times = zip(*columns, strict=True)
    fields = [("age", *map(str, ages)), *(("", *(person[i] for person in people.values())) for i in (1, 2))]
    values = {}
    profiles = [
        [values.setdefault((n, field[u + 1]), len(values) + 1) for n, field in enumerate(fields)]
        for u in range(len(people))
    ]
    return arranged(
        users,
        items,
        stars,
        times,
        ["", *(name for name, _ in films.values())],
        num_answers=6,
        first_good=4,
        categories=[tuple(kinds) for _, kinds in films.values()],
        profiles=profiles,
        num_values=len(values) + 1,
    )


def _rows(path, separator, count, encoding=None):
    """The fields of each line of a file."""
    rows = [line.split(separator) for line in lines_of(path, encoding) if line]
    for number, row in enumerate(rows, start=1):
        if len(row) != count:
            raise UserError(f"{path}, line {number}: found {len(row)} fields. Expected: {count}.")
    return rows


COLUMNS = ["user", "item", "rating", "time"]
MOST_RATINGS = 100  # different ones


def read_interactions(path: str | Path, like: float) -> Interactions:
    """Reads a table with the columns user, item, rating (a number) and time (seconds, or a date).

    Args:
        path: str or Path of a CSV or TSV file with a header.
        like: float, the lowest rating that is a good answer.

    Raises:
        UserError: if the table cannot be read, names the line; or if no rating or every one is a good answer.
    """
    content, delimiter = table_content(path, COLUMNS)
    if delimiter is None:
        raise UserError(f"{path}: found JSON lines. Expected: a CSV or TSV file with the columns {', '.join(COLUMNS)}.")
    columns = ([], [], [], [])
    for line, row in delimited_rows(path, content, delimiter, COLUMNS):
        if isinstance(row, BadRow):
            raise UserError(row.message(path, line))
        user, item, rating, time = (value.strip() for value in row)
        where = f"{path}, line {line}"
        if not user or not item:
            raise UserError(f"{where}: the {'item' if user else 'user'} is empty. Expected: a name or a number.")
        values = user, item, _number(rating, f"{where}, rating"), _seconds(time, f"{where}, time")
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    users, items, ratings, times = columns
    if not users:
        raise UserError(f"{path}: there is a header but no row.")
    known = sorted(set(ratings))
    if len(known) > MOST_RATINGS:
        raise UserError(
            f"{path}: found {len(known):,} different ratings. Expected: at most {MOST_RATINGS}, such as stars."
        )
    if not known[0] < like <= known[-1]:
        raise UserError(
            f"{path}: {'no' if like > known[0] else 'every'} rating is {like:g} or more: nothing can be learned. The "
            f"ratings go from {known[0]:g} to {known[-1]:g}: choose another --like."
        )
    user_ids = {name: number for number, name in enumerate(dict.fromkeys(users))}
    item_ids = {name: number for number, name in enumerate(dict.fromkeys(items), start=1)}
    answer_ids = {rating: number for number, rating in enumerate(known, start=1)}
    return arranged(
        [user_ids[name] for name in users],
        [item_ids[name] for name in items],
        [answer_ids[rating] for rating in ratings],
        times,
        ["", *item_ids],
        num_answers=len(known) + 1,
        first_good=next(answer_ids[rating] for rating in known if rating >= like),
    )


def _number(text, where):
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not isfinite(number):
        raise UserError(f"{where}: found {quoted(text)}. Expected: a number.")
    return number


def _seconds(text, where):
    try:
        return _number(text, where)
    except UserError:
        try:
            when = datetime.fromisoformat(text)
        except ValueError:
            raise UserError(
                f"{where}: found {quoted(text)}. Expected: seconds, or a date such as 2026-03-21."
            ) from None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
