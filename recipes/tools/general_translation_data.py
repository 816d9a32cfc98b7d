"""One table of sentence pairs from several sources, for a translator of everyday text.

    python recipes/tools/general_translation_data.py --languages en de --out train.tsv --seed 1 \
        --source mt_tatoeba_en_de/train.tsv.gz --source mt_chat_bcontrast/train.en-de.tsv.gz=3

Each source is a table whose header names the two languages; other columns are ignored. "=3" takes its pairs three
times, "=0.3" a random share of them. Pairs are cleaned: blanks around punctuation are closed, pairs whose lengths do
not fit are dropped. Pairs are added that teach what ordinary pairs do not:
- lines of two sentences, made of two pairs, so that the second one is not lost;
- other names and numbers, where both sides have the same one, and placeholders such as {name} instead of names;
- addresses, numbers, times and placeholders alone or in a sentence, which are to be copied.
"""

import argparse
import os
import random
import re
import sys
from pathlib import Path

from keras_attention.cli.main import guarded
from keras_attention.data.files import read_lines
from keras_attention.support.atomic_files import whole_file
from keras_attention.support.errors import UserError

CLOSED = ((r" ([.,;:!?%)\]}])", r"\1"), (r"([(\[{]) ", r"\1"), (r" ('s|'t|'re|'ve|'m|'ll|'d)\b", r"\1"),
          (r' " ([^"]*) " ?', r' "\1" '), (r" ' ([^']*) ' ", r" '\1' "), (r" +", " "))  # fmt: skip
SYLLABLES = [
    "an",
    "ber",
    "co",
    "da",
    "el",
    "fi",
    "gra",
    "ha",
    "is",
    "jo",
    "ka",
    "lu",
    "mar",
    "nen",
    "or",
    "pe",
    "qui",
    "ro",
    "sa",
    "tu",
    "ul",
    "vi",
    "wen",
    "xa",
    "yo",
    "zi",
]
ENDINGS = ("son", "mann", "berg", "ini", "ez", "ov", "er", "a", "o", "in")
NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*")
WORD = re.compile(r"\b[A-Z][a-zß-ÿ]+\b")
MOST_WORDS, MOST_RATIO, MOST_TIMES = 60, 2.5, 1000


def closed(text):
    """The text without the blanks that tokenization left around punctuation."""
    for pattern, replacement in CLOSED:
        text = re.sub(pattern, replacement, text)
    return text.strip()


def read_pairs(path, languages):
    """List of pairs of the columns named by two languages; a table that puts blanks before full stops is closed."""
    header, *rows = (line.split("\t") for line in read_lines(path))
    if not set(languages) <= set(header):
        raise UserError(f"{path} needs the columns {' and '.join(languages)}. Received: {', '.join(header)}")
    columns = [header.index(language) for language in languages]
    pairs = [tuple(row[column] for column in columns) for row in rows if len(row) == len(header)]
    tokenized = sum(pair[0].endswith(" .") for pair in pairs) > len(pairs) / 4
    return [tuple(map(closed, pair)) for pair in pairs] if tokenized else pairs


def fits(pair, most_words=MOST_WORDS):
    """Whether the two sides can be translations of each other by their lengths."""
    source, target = (len(side.split()) for side in pair)
    if not source or not target or max(source, target) > most_words:
        return False
    return max(source, target) <= 3 + MOST_RATIO * min(source, target)


def new_name(draw):
    """A made-up name of two to four syllables."""
    name = "".join(draw.choices(SYLLABLES, k=draw.randint(1, 3))) + draw.choice(ENDINGS)
    return name.capitalize()


def new_number(draw, like):
    """A number with the signs of `like` and other digits."""
    return re.sub(r"\d", lambda digit: draw.choice("123456789" if digit.start() == 0 else "0123456789"), like)


def placeholder(draw):
    """What a template has instead of a name."""
    return "{" + new_name(draw).lower() + "}"


def address(draw):
    """Something that is the same in every language: an address, a number, a time, a placeholder, a sign."""
    name, place = new_name(draw).lower(), new_name(draw).lower()
    kinds = (
        f"{name}.{place}@{draw.choice(['example.com', 'mail.org', 'web.de', 'gmail.com'])}",
        f"https://{draw.choice(['www.', ''])}{place}.{draw.choice(['com', 'org', 'de', 'net'])}/{name}",
        f"{draw.choice(SYLLABLES).upper()} {draw.randint(1, 9999)}",
        f"{draw.randint(0, 23):02d}:{draw.randint(0, 59):02d}",
        f"{draw.randint(1, 99_999)}",
        placeholder(draw),
        f"<b>{new_name(draw)}</b>",
        draw.choice("😀🎉👍🚀🙂"),
    )
    return draw.choice(kinds)


def with_others(pair, draw):
    """The pair with another name (one in four: a placeholder) or number where both sides share one, or None."""
    source, target = pair
    shared = set(NUMBER.findall(source)) & set(NUMBER.findall(target))
    for number in sorted(shared):
        other = new_number(draw, number)
        source, target = (re.sub(rf"(?<!\d){re.escape(number)}(?!\d)", other, side) for side in (source, target))
    names = sorted((set(WORD.findall(source)) & set(WORD.findall(target))) - {pair[0].split()[0]})
    for name in names[:2]:
        other = draw.choice((new_name, new_name, new_name, placeholder))(draw)
        source, target = (re.sub(rf"\b{name}\b", other, side) for side in (source, target))
    return (source, target) if (source, target) != pair else None


def with_address(pair, draw):
    """The pair with something to copy behind it, or in parentheses."""
    copied = address(draw)
    form = draw.choice(("{} {}", "{} ({})", "{}: {}"))
    return tuple(form.format(side.rstrip(".:") if ":" in form else side, copied) for side in pair)


def additional_pairs(pairs, seed):
    """Pairs made of these, in shares of their number: 15 % of two sentences, 10 % others, 5 % and 1 % to be copied."""
    draw = random.Random(seed)
    count = len(pairs)
    two = [tuple(map(" ".join, zip(*draw.sample(pairs, 2), strict=True))) for _ in range(count * 15 // 100)]
    changed = (with_others(pair, draw) for pair in draw.sample(pairs, min(count, count * 30 // 100)))
    others = [pair for pair in changed if pair][: count // 10]
    copied = [with_address(pair, draw) for pair in draw.sample(pairs, count * 5 // 100)]
    alone = [(text, text) for text in (address(draw) for _ in range(count // 100))]
    return [*filter(fits, two), *others, *copied, *alone]


def times_and_share(amount, source):
    """How often the pairs of a source are taken, and which share of them: 3 and 1.0 of "3", 1 and 0.3 of "0.3"."""
    if amount.isdecimal() and len(amount) < 9 and 1 <= int(amount) <= MOST_TIMES:
        return int(amount), 1.0
    if re.fullmatch(r"0?\.\d{1,9}", amount) and float(amount):
        return 1, float(amount)
    if amount:
        raise UserError(f"--source is a path, perhaps with =TIMES or =SHARE (below 1) behind it. Received: {source}")
    return 1, 1.0


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--languages", nargs=2, required=True, metavar=("SOURCE", "TARGET"))
    parser.add_argument(
        "--source", action="append", required=True, help="table, perhaps with =TIMES or =SHARE behind it"
    )
    parser.add_argument("--out", required=True)
    parser.add_argument("--most-words", type=int, default=MOST_WORDS, help="of a side; longer pairs are dropped")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    given = parser.parse_args(arguments)
    if given.most_words < 1:
        raise UserError(f"--most-words must be at least 1. Received: {given.most_words}")
    if any(os.path.realpath(source.partition("=")[0]) == os.path.realpath(given.out) for source in given.source):
        raise UserError(f"--out {given.out} is also a --source. Choose another file.")
    pairs, repeated = [], []
    for source in given.source:
        path, _, amount = source.partition("=")
        times, share = times_and_share(amount, source)
        chosen = [pair for pair in read_pairs(path, given.languages) if fits(pair, given.most_words)]
        chosen = list(dict.fromkeys(chosen))
        if share < 1:
            chosen = random.Random(given.seed).sample(chosen, round(share * len(chosen)))
        print(f"{path}: {len(chosen):,} pairs, {times} times")
        pairs += chosen
        repeated += chosen * (times - 1)
    if not pairs:
        raise UserError("The sources have no pairs that fit. Expected: at least one; see --most-words and =SHARE.")
    made = additional_pairs(pairs, given.seed)
    print(f"{len(made):,} pairs made of them")
    everything = [*pairs, *repeated, *made]
    random.Random(given.seed).shuffle(everything)
    with whole_file(Path(given.out)) as file:
        file.writelines(f"{source}\t{target}\n" for source, target in everything)
    print(f"{given.out}: {len(everything):,} pairs")


if __name__ == "__main__":
    sys.exit(guarded(main, "general_translation_data.py", debug="--debug" in sys.argv))
