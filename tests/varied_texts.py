"""Texts that break careless tokenizers."""

import random

ALPHABETS = (
    "abcdefghijklmnopqrstuvwxyz ABCDEFG 0123456789 .,;:!?'\"()-",
    "éèêëàâçñöäüßøåæœłśźżčřžșțığİ ÄÖÜ",
    "e\u0301a\u0308o\u0302n\u0303c\u0327 u\u0308\u0304",
    "абвгдежзийкл мнопрстуфхцчшщъыьэюяіїєґ",
    "αβγδεζηθικλμνξ οπρσςτυφχψωάέήίόύώϊΐ",
    "中文日本語年月日漢字 ひらがなカタカナ　。、",
    "한국어 날짜 년월일",
    "😀🐕🏃‍♀️👨‍👩‍👧‍👦🇩🇪❤️ ",
    "\t\r\u00a0\u202f\u200b\u200d\ufeff\u0085\u2028\u00ad\x01\x1f\x7f ",
    "ﬁﬂ①²½™ℌＡＢ１２… ",
)
SPECIAL = [
    "",
    " ",
    "   ",
    "</s>",
    "<pad>",
    "<s> <unk>",
    "▁",
    "a▁b",
    "⁇",
    " two  spaces ",
    "I\u0307",
    "ǅ ŉ ẞ",
    "\x00",
    "a\x00b",
]


def varied_texts(count, seed=0):
    """Returns a list of `count` str, the same for the same arguments, in many scripts and with odd characters."""
    draw = random.Random(seed)
    texts = list(SPECIAL)
    while len(texts) < count:
        alphabets = draw.choices(ALPHABETS, k=draw.randrange(1, 4))
        texts.append("".join(draw.choice(draw.choice(alphabets)) for _ in range(draw.randrange(1, 41))))
    return texts[:count]
