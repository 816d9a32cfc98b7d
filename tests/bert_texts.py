"""Texts for BERT's tokenizer: every script, and words of the vocabulary among them."""

import random
import unicodedata

from varied_texts import varied_texts

WORDS = [
    "the",
    "dogs",
    "ran",
    ",",
    "don't",
    "stop",
    "!",
    "un##known",
    "émigré",
    "naïve",
    "Straße",
    "北京",
    "2.5",
    "$7",
    "well-known",
    "ΣΊΣΥΦΟΣ",
    "İstanbul",
    "ǅ",
    "ﬁn",
]
ALPHABETS = (
    "ก็ที่นี่ผู้ใหญ่กินข้าว ๑๒๓฿",
    "السَّلَامُ عَلَيْكُمْ؟ ،٣٤ـ",
    "नमस्ते दुनिया। হ্যালো தமிழ்",
    "\u1112\u1161\u11ab한글각 ㄱㅏ",
    "e\u0301\u0327a\u0308\u0300 \u0301\u200d\u0345\u1ab0\u20dd\u0488",
    "\ufffd\ue000\uf8ff\U000f0000\U0010fffd\x85\x9f\x0b\x1c\u2029\u3000\u2003\u1680\u180e\u2060",
    "𠀀𫝀𫠠㐀豈丽龥 、。「」・ー〜々",
    "—–‐‘’“”«»…·¿¡§¶†‡‰′″※⁂ ¬±×÷€£¥©®°^`~|<>=+$",
    "İıſKÅΩǅẞßŉΐᾳᾼⅧⓐＡ",
    "👩\u200d💻👍🏽🏴\U000e0067\U000e0062\U000e007f✊︎❤️🫨",
)


def bert_texts(count, seed=0):
    """Returns a list of `count` str, the same for the same arguments."""
    draw = random.Random(seed)
    by_category = {}
    for point in range(0x30000):
        if not 0xD800 <= point <= 0xDFFF:
            by_category.setdefault(unicodedata.category(chr(point)), []).append(chr(point))
    kinds = [*ALPHABETS, *by_category.values()]
    texts = ["x" * 99, "x" * 100, "x" * 101, "é" * 100, "é" * 101, "e\u0301" * 100, "한" * 50, "한" * 51, "漢" * 103]
    texts += varied_texts(count // 4, seed)
    while len(texts) < count:
        parts = []
        for _ in range(draw.randrange(1, 7)):
            chosen = draw.choice(kinds)
            noise = "".join(draw.choice(chosen) for _ in range(draw.randrange(1, 9)))
            parts += [draw.choice(WORDS), draw.choice(["", " "]), noise, draw.choice(["", " "])]
        texts.append("".join(parts))
    return texts
