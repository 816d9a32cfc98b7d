"""Interactions of users with items: generated, of MovieLens-100K, or of a table."""

from itertools import pairwise

import numpy as np
import pytest

from keras_attention.data.clicks.interactions import (
    arranged,
    generate_interactions,
    item_vectors,
    read_interactions,
    read_movielens,
)
from keras_attention.support.errors import UserError


def test_generated_users_like_what_they_liked_last():
    data = generate_interactions(53, 71, seed=3)
    same = generate_interactions(53, 71, seed=3)
    np.testing.assert_array_equal(data.answers, same.answers)
    assert (np.diff(data.users) >= 0).all()
    assert (data.times[1:] >= data.times[:-1])[np.diff(data.users) == 0].all()
    assert set(data.answers) == {1, 2}
    assert data.profiles.shape == (53, 2)
    assert data.profiles.max() == data.num_profile_values - 1
    follows = np.diff(data.users) == 0
    kinds = [set(data.categories[item]) - {0} for item in data.items]
    shared = np.array([len(before & after) for before, after in pairwise(kinds)])
    after_liked = follows & data.liked[:-1]
    assert data.liked[1:][after_liked & (shared > 0)].mean() > data.liked[1:][after_liked & (shared == 0)].mean() + 0.03


FILMS = [("Up (2009)", "Children's Comedy"), ("Alien (1979)", "Horror"), ("Heat (1995)", "Crime")]
PEOPLE = [("24", "M", "writer"), ("53", "F", "other")]
RATINGS = [(1, 2, 3, 7_200), (1, 1, 5, 3_600), (2, 3, 4, 60)]  # user, film, stars, seconds


def write_of_recbole(folder):
    lines = {
        "item": ["item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq"],
        "user": ["user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token"],
        "inter": ["user_id:token\titem_id:token\trating:float\ttimestamp:float"],
    }
    for number, (name, kinds) in enumerate(FILMS, start=1):
        title, year = name[:-1].split(" (")
        lines["item"].append(f"{number}\t{title}\t{year}\t{kinds}")
    lines["user"] += ["\t".join((str(number), *person, "85711")) for number, person in enumerate(PEOPLE, start=1)]
    lines["inter"] += ["\t".join(map(str, rating)) for rating in RATINGS]
    for suffix, rows in lines.items():
        (folder / f"ml-100k.{suffix}").write_text("\n".join(rows) + "\n", encoding="utf-8")


def write_original(folder):
    genres = ["unknown", "Children's", "Comedy", "Crime", "Horror", *(f"genre {i}" for i in range(14))]
    (folder / "u.genre").write_text("".join(f"{name}|{i}\n" for i, name in enumerate(genres)), encoding="utf-8")
    films = []
    for number, (name, kinds) in enumerate(FILMS, start=1):
        flags = [str(int(genre in kinds.split())) for genre in genres]
        films.append("|".join([str(number), name, "01-Jan-1995", "", "http://", *flags]))
    (folder / "u.item").write_text("\n".join(films) + "\n", encoding="latin-1")
    people = ["|".join((str(number), *person, "85711")) for number, person in enumerate(PEOPLE, start=1)]
    (folder / "u.user").write_text("\n".join(people) + "\n", encoding="utf-8")
    (folder / "u.data").write_text("\n".join("\t".join(map(str, row)) for row in RATINGS) + "\n", encoding="utf-8")


@pytest.mark.parametrize("write", [write_of_recbole, write_original])
def test_both_forms_of_movielens(tmp_path, write):
    write(tmp_path)
    data = read_movielens(tmp_path)
    assert data.item_names == ["", "Up (2009)", "Alien (1979)", "Heat (1995)"]
    assert data.users.tolist() == [0, 0, 1]
    assert data.items.tolist() == [1, 2, 3]  # by time
    assert data.answers.tolist() == [5, 3, 4]
    assert data.liked.tolist() == [True, False, True]
    assert [data.category_names[i] for i in data.categories[1]] == ["Children's", "Comedy"]
    assert [data.category_names[i] for i in data.categories[2]] == ["Horror", ""]
    assert data.num_answers == 6
    assert len(set(data.profiles.ravel())) == data.profiles.size  # age group, gender, occupation and user all differ


def test_faults_of_movielens_name_file_and_line(tmp_path):
    with pytest.raises(UserError, match=r"there is no u.data and no ml-100k.inter.*grouplens.org"):
        read_movielens(tmp_path)
    write_of_recbole(tmp_path)
    path = tmp_path / "ml-100k.inter"
    good = path.read_text(encoding="utf-8")
    path.write_text(good + "1\t2\t3\n", encoding="utf-8")
    with pytest.raises(UserError, match="ml-100k.inter, line 5: found 3 fields. Expected: 4."):
        read_movielens(tmp_path)
    for row in ("1\t99\t3\t5", "1\t2\tgood\t5"):
        path.write_text(f"{good}{row}\n", encoding="utf-8")
        with pytest.raises(UserError, match="Expected: known users and films, and numbers"):
            read_movielens(tmp_path)


HEADER = "user,item,rating,time\n"


def test_a_table(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text(
        'user,item,note,rating,time\nAnn,"Tea, green",x,1,2026-03-21\nBo,Milk,x,2.5,0\nAnn,Milk,x,4,2026-03-20T17:45\n',
        encoding="utf-8",
    )
    data = read_interactions(path, like=2.5)
    assert data.item_names == ["", "Tea, green", "Milk"]
    assert data.users.tolist() == [0, 0, 1]
    assert data.items.tolist() == [2, 1, 2]
    assert data.answers.tolist() == [3, 1, 2]
    assert data.liked.tolist() == [True, False, True]
    assert data.times[1] - data.times[0] == 6.25 * 3600


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("", "there is a header but no row"),
        ("Ann,Tea,good,5\n", "line 2, rating: found 'good'. Expected: a number"),
        ("Ann,Tea,nan,5\n", "line 2, rating: found 'nan'"),
        ("Ann,Tea,3,yesterday\n", "line 2, time: found 'yesterday'. Expected: seconds, or a date"),
        ("Ann,Tea,3,5\n ,Tea,3,5\n", "line 3: the user is empty"),
        ("Ann,,3,5\n", "line 2: the item is empty"),
        ("Ann,Tea,3\n", "line 2"),
        ("Ann,Tea,3,5\nBo,Tea,4,5\n", "no rating is 9 or more: nothing can be learned.*from 3 to 4"),
        ("".join(f"Ann,Tea,{i},5\n" for i in range(103)), "found 103 different ratings"),
    ],
)
def test_faults_of_a_table(tmp_path, rows, message):
    path = tmp_path / "ratings.csv"
    path.write_text(HEADER + rows, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        read_interactions(path, like=9)


def test_vectors_of_items_are_near_for_the_same_users():
    pairs = [(user, item) for user in range(40) for item in range(1, 13) if user % 3 == item % 3]
    users, items = zip(*pairs, strict=True)
    names = ["", *"ABCDEFGHIJKLM"]
    data = arranged(users, items, [1] * len(users), range(len(users)), names, num_answers=3, first_good=2)
    known = np.flatnonzero(data.items != 12)
    vectors = item_vectors(data, known, 5)
    assert (vectors.shape, vectors.dtype) == ((14, 5), "float32")
    assert not vectors[[0, 12, 13]].any()  # padding, not known, never answered
    np.testing.assert_allclose(np.sqrt(np.square(vectors).mean()), 0.1, rtol=1e-5)
    dots = vectors[1:12] @ vectors[1:12].T
    together = np.equal.outer(np.arange(11) % 3, np.arange(11) % 3)
    assert dots[together].min() > 100 * np.abs(dots[~together]).max()
    counted = np.zeros((40, 14))  # all singular values: the vectors give the matrix of common users, with its root
    counted[data.users[known], data.items[known]] = 1
    counted /= np.sqrt(counted.sum(axis=1, keepdims=True))
    exact = item_vectors(data, known, 14).astype("float64")
    values, axes = np.linalg.eigh(counted.T @ counted)
    root = axes * np.sqrt(np.maximum(values, 0)) @ axes.T
    np.testing.assert_allclose(exact @ exact.T / np.trace(exact @ exact.T), root / np.trace(root), atol=1e-5)
