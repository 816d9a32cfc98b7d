"""Texts as token ids for teachers and student, in as many processes as there are cores."""

import lzma
import random
import re
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np

UNK, CLS, SEP = "[UNK]", "[CLS]", "[SEP]"
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')]*\s+")
MOST_TOKENS = 256  # of a text from which vectors are learned
LETTERS = 100  # of a word; longer words are [UNK], as in BERT


class Ids(NamedTuple):
    """Token ids of N texts, one after the other.

    Attributes:
        teacher, student: uint16 arrays, ids of all texts, with [CLS] and [SEP].
        teacher_lengths, student_lengths: int32 arrays (N).
        source: int32 array, for every token of the student, the position in its text of the teacher's token.
    """

    teacher: np.ndarray
    student: np.ndarray
    teacher_lengths: np.ndarray
    student_lengths: np.ndarray
    source: np.ndarray


class Tokenizer:
    """WordPiece with the teachers' vocabulary, and with the part of it that the student has."""

    def __init__(self, student_vocabulary, teacher_vocabulary):
        self.teacher_vocabulary = teacher_vocabulary
        self.student_ids = {piece: i for i, piece in enumerate(student_vocabulary)}
        self.to_student = np.array([self.student_ids.get(piece, -1) for piece in teacher_vocabulary], np.int32)
        self.words = {}  # teacher's ids of a word -> student's ids

    def load(self):
        from tokenizers import BertWordPieceTokenizer

        vocabulary = {piece: i for i, piece in enumerate(self.teacher_vocabulary)}
        self.teacher = BertWordPieceTokenizer(vocabulary, lowercase=True)
        return self

    def encode(self, texts):
        """Pairs of teacher's ids and word numbers, for every text, without [CLS] and [SEP]."""
        return [(e.ids, e.word_ids) for e in self.teacher.encode_batch(texts, add_special_tokens=False)]

    def both(self, ids, words):
        """The student's ids and the position of the teacher's token of each."""
        direct = self.to_student[ids]
        if (direct >= 0).all():
            return direct, np.arange(len(ids))
        student_ids, sources = [], []
        begin = 0
        while begin < len(ids):
            end = begin + 1
            while end < len(ids) and words[end] == words[begin]:
                end += 1
            pieces = self.word(tuple(ids[begin:end]))
            student_ids.extend(pieces)
            sources.extend(begin + min(i, end - begin - 1) for i in range(len(pieces)))
            begin = end
        return np.array(student_ids), np.array(sources)

    def word(self, ids):
        if ids not in self.words:
            self.words[ids] = self._pieces("".join(self.teacher_vocabulary[i].removeprefix("##") for i in ids))
        return self.words[ids]

    def _pieces(self, word):
        pieces, begin = [], 0
        if word in (UNK, "") or len(word) > LETTERS:
            return [self.student_ids[UNK]]
        while begin < len(word):
            for end in range(len(word), begin, -1):
                piece = self.student_ids.get("##" * bool(begin) + word[begin:end])
                if piece is not None:
                    break
            else:
                return [self.student_ids[UNK]]
            pieces.append(piece)
            begin = end
        return pieces


def texts_to_ids(tokenizer, texts, teacher_tokens=MOST_TOKENS, student_tokens=MOST_TOKENS, pairs=None, processes=1):
    """Ids of texts; the middle of longer texts is left out. With `pairs`, [CLS] text [SEP] text of `pairs` [SEP]."""
    parts = np.array_split(np.arange(len(texts)), max(1, min(processes * 4, len(texts) // 200)))
    jobs = [(tokenizer, [texts[i] for i in part], teacher_tokens, student_tokens) for part in parts]
    jobs = [(*job, pairs and [pairs[i] for i in part]) for job, part in zip(jobs, parts, strict=True)]
    if processes == 1 or len(jobs) == 1:
        ids_of_jobs = [_encode(job) for job in jobs]
    else:
        with ProcessPoolExecutor(processes, mp_context=get_context("fork")) as pool:
            ids_of_jobs = list(pool.map(_encode, jobs))
    return Ids(*(np.concatenate(arrays) for arrays in zip(*ids_of_jobs, strict=True)))


def _encode(job):
    tokenizer, texts, teacher_tokens, student_tokens, pairs = job
    tokenizer.load()
    teacher, student, source = [], [], []
    cls, sep = (tokenizer.teacher_vocabulary.index(piece) for piece in (CLS, SEP))
    student_cls, student_sep = tokenizer.to_student[[cls, sep]]
    seconds = tokenizer.encode(pairs) if pairs else [None] * len(texts)
    for (ids, words), second in zip(tokenizer.encode(texts), seconds, strict=True):
        if second:
            words = [*words, -1, *(word + 10_000 for word in second[1])]
            ids = [*ids, sep, *second[0]]
        theirs, sources = tokenizer.both(np.array(ids, int), words)
        places, own = (without_middle(len(x), n - 2) for x, n in ((ids, teacher_tokens), (theirs, student_tokens)))
        teacher.append(np.concatenate([[cls], np.array(ids, int)[places], [sep]]))
        student.append(np.concatenate([[student_cls], theirs[own], [student_sep]]))
        source.append(np.concatenate([[0], np.minimum(sources[own] + 1, len(teacher[-1]) - 1), [len(teacher[-1]) - 1]]))
    ids = [np.concatenate(found).astype(np.uint16) for found in (teacher, student)]
    lengths = [np.array([len(x) for x in found], np.int32) for found in (teacher, student)]
    return *ids, *lengths, np.concatenate(source).astype(np.int32)


def without_middle(length, most):
    """The indices that remain if at most `most` of `length` do."""
    if length <= most:
        return np.arange(length)
    return np.concatenate([np.arange(most // 2), np.arange(length - (most - most // 2), length)])


def read_files(folder):
    """Name -> lines of each packed file."""
    return {
        path.name.removesuffix(".xz"): lzma.decompress(path.read_bytes()).decode().split("\n")[:-1]
        for path in sorted(folder.glob("*.xz"))
    }


def labelled(lines):
    """Lists of the labels (int) and the texts of lines with a tab after the label."""
    pairs = [line.split("\t", 1) for line in lines]
    return [int(label) for label, _ in pairs], [text for _, text in pairs]


def units(files, most_words, seed=1):
    """The texts that the student learns from: sentences, passages of several sentences, and pieces of sentences."""
    draw = random.Random(seed)
    reviews = files["reviews_unlabelled.txt"] + labelled(files["reviews_train.tsv"])[1]
    documents = {"reviews": reviews, "books": files["books.txt"]}
    documents["wikipedia"] = [line for name in files if name.startswith("wikipedia") for line in files[name]]
    short = files["short.txt"] + labelled(files["phrases_train.tsv"])[1] + files["phrases_neutral.txt"]
    short += [text for line in files["pairs_train.tsv"] for text in line.split("\t")[1:]]
    units = [*short, *(piece(text, draw) for text in short)]
    words = sum(text.count(" ") + 1 for text in units)
    each = (most_words - words) / len(documents)
    for name, texts in documents.items():
        draw.shuffle(texts)
        before = words
        for text in texts:
            for unit in parts(text, draw):
                units.append(unit)
                words += unit.count(" ") + 1
            if words - before > each:
                break
        print(f"{name}: {words - before:,} words", flush=True)
    return [unit for unit in units if unit]


def parts(text, draw):
    """The sentences of a text, pieces of every second one, and now and then a passage."""
    sentences = SENTENCE_END.split(text)
    for sentence in sentences:
        if draw.random() < 0.7:
            yield sentence
        if draw.random() < 0.5:
            yield piece(sentence, draw)
    if len(sentences) > 1 and draw.random() < 0.4:
        begin = draw.randrange(len(sentences))
        yield " ".join(sentences[begin : begin + draw.randint(2, 12)])


def piece(text, draw):
    words = text.split()
    if len(words) < 4:
        return ""
    length = draw.randint(3, min(14, len(words)))
    begin = draw.randrange(len(words) - length + 1)
    return " ".join(words[begin : begin + length])


def altered_pairs(pairs, count, seed=1):
    """New pairs of texts for a teacher to label: without some words, with exchanged halves, or from two pairs."""
    draw, altered = random.Random(seed), []
    while len(altered) < count:
        a, b = draw.choice(pairs)
        kind = draw.random()
        if kind < 0.45:
            a, b = fewer_words(a, draw), fewer_words(b, draw)
        elif kind < 0.6:
            b = fewer_words(a, draw)
        elif kind < 0.85:
            first, second = a.split(), b.split()
            b = " ".join(first[: len(first) // 2] + second[len(second) // 2 :])
        elif kind < 0.92:
            b = draw.choice(pairs)[1]
        altered.append((b, a) if draw.random() < 0.5 else (a, b))
    return altered


def fewer_words(text, draw):
    share = draw.choice((0.0, 0.05, 0.1, 0.2, 0.3))
    return " ".join(word for word in text.split() if draw.random() >= share)
