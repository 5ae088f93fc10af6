"""Texts for the tokenizer fixtures: what the small tokenizers are trained on, a kept corpus of hard cases, and a
generator of random texts."""

import random
import unicodedata

# Written for this file.
PARAGRAPHS = [
    "The lamp near the river burns all night. Who lit it? Nobody knows, but they're sure it wasn't the miller.",
    "I'll say it again: we've walked 1234 steps, then 56 more, and you'd stop at 7. It's 3.14 miles, isn't it?",
    "Größe, Straße, Übermut und ähnliche Wörter; l'été dernier, où étiez-vous? El niño comió piñas en la mañana.",
    "Река течёт медленно, а мост стоит давно. Ελληνικά γράμματα και λόγια. שלום עולם, מה שלומך היום?",
    "मेरा घर नदी के पास है। ฉันชอบกินข้าวกับปลา เมื่อวานนี้ฝนตก. السلام عليكم ورحمة الله، كيف حالك اليوم؟",
    "川の近くに古い家があります。今日は天気がいいですね。我们昨天去了图书馆,看了三本书。한국어 문장도 하나 넣어 둡니다.",
    'def add(a, b):\n    # sums\n    return a + b\n\nfor i in range(10):\n\tprint(f"{i}: {add(i, 2)}")\n',
    "#include <vector>\nint main() {\n  std::vector<int> v{1, 2, 3};\n  return v.size() == 3 ? 0 : 1;\n}\n",
    "SELECT name, COUNT(*) FROM users WHERE age >= 18 GROUP BY name; -- HTTPServer camelCase snake_case XMLParser2",
    "👩‍🚀 went up, 👨‍👩‍👧‍👦 waved, 🏳️‍🌈 and 🇩🇪 flew; 👍🏽 said the 🦊. Zero\u200bwidth and soft\u00adhyphen.",
    "e\u0301 and é, Å and \u212b, ﬁ and fi, ｆｕｌｌ and full, \u1e9b\u0323, \uac00 and \u1100\u1161, \u0958, \u2126.",
]

SPECIALS = [
    "<s>",
    "</s>",
    "<unk>",
    "<pad>",
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|begin_of_text|>",
    "<|eot_id|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<start_of_turn>",
    "<end_of_turn>",
    "[INST]",
    "[/INST]",
    "<|user|>",
    "<tool_call>",
    "<|end|>",
    "<mask>",
    "word",
    "[L]",
    "[R]",
    "[N]",
    "[S]",
    "<0x41>",
    "<ctrl>",
]

CORPUS = PARAGRAPHS + [
    "",
    " ",
    "  ",
    "a",
    " a",
    "a ",
    "Hello world",
    "Hello  world   with    runs     of      spaces",
    "\n",
    "\n\n",
    "\n\n\n",
    "\r\n",
    "\r\n\r\n x",
    " \n \n",
    "\t",
    "\t\t\tx",
    "a\n\n b",
    "a \n\n  b",
    "x\n ",
    "x \n",
    "tabs\tand\x0bvertical\x0cfeeds",
    "\u0085next\u2028line\u2029paragraph",
    "nbsp\u00a0\u00a0x \u3000wide\u2003em",
    "\u180e\u180emongolian \u180e",
    "\ufeffbom",
    "\x00\x01\x02\x1f\x7f\u0080\u009f",
    "a\x00b",
    "don't DON'T Don\u2019t we'll WE'LL it's IT'S I'm I'M 'tis 'S 'ſ they've they'd 'RE",
    "1",
    "12",
    "123",
    "1234",
    "12345 1,234,567.89 ½ ² Ⅷ ٣٤٥ १२३ 𝟘𝟙",
    "...!!!???",
    "a.b,c;d",
    "¿Qué? ¡Sí! «quoted» „tief“ — – - _ __init__",
    "$100 €50 £5 + = < > ~ ^ ` |",
    "e\u0301e\u0302\u0323 o\u0308\u0308\u0308 \u0301start",
    "q\u0307\u0323 q\u0323\u0307",
    "\u0344\u0f73\u0f75",
    "Z" + "\u0335\u0301\u0323\u0327\u0489" * 6 + "algo",
    "İstanbul ISTANBUL ẞ ǅ Ωμέγα ΣΑΣ ŉ ǰ",
    "ﷺ ﬃ ℡ ㍿ ① ½ ｶﾞ",
    "각 각 가\u11a8",
    "नि कि त्र क्ष",
    "กำ ำ",
    "ﻼ لا",
    "👩‍👩‍👦👩🏿‍🚒🤷🏽‍♂️",
    "🇫🇷🇩🇪🇫",
    "1️⃣#️⃣",
    "👍👍🏻👍🏿",
    "\U0001f1e6",
    "\u200d\u200c\ufe0f",
    "\U000e0067",
    "\ue000\uf8ff\U000f0000\U0010fffd",
    "\ufffd\ufffd",
    "\ufdd0",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "ababababababababababababababab",
    "          indented",
    "x" + " " * 40 + "y",
    "\n" * 20 + "z",
    " \t \t \n\t ",
    "https://example.org/a/b?c=d&e=f#g user@example.org /usr/lib/x86_64",
    '{"k": [1, 2, {"z": null}]}',
    "<s>",
    "</s>",
    "<s> hi",
    "hi</s>",
    "<s>hi</s>there",
    "  <s>  hi  </s>  ",
    "<|im_start|>user\nhi<|im_end|>\n",
    "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>",
    "<|im_start|",
    "<<s>>",
    "<|im_start|><|im_start|>",
    "word words sword word-word _word word_ wordé éword word1 (word)",
    "a [L] b[L]c  [L]  d [R] e[R]f  [R]  g [S] h",
    "[N] [n] ［Ｎ］ x[N]y",
    "<mask> a <mask>b  <mask>  \n c",
    "<start_of_turn>user\nhi<end_of_turn>\n",
    "<tool_call>{}</tool_call>",
    "[INST] hi [/INST] ok</s>",
    "<unk>",
    "<pad><pad>",
    "<0x41><0x0A>",
    "▁ ▁▁x ▁",
    "Ġ Ċ ĠĠx",
    "<ctrl>x<|user|> y",
    "\n\n<s>\n\n",
    "[L][R][L]",
    "\t[R]\t\t[L]\t",
    "<mask><mask>",
    "x<mask>\u00a0y",
]

# As latin-1, since JSON holds no bytes.
INVALID = [
    b"a\xffb",
    b"\xf0\x9f\x99z",
    b"\xf0\x9f\x99",
    b"\xc0\xaf",
    b"\xed\xa0\x80",
    b"ok \xe2\x82",
    b"\x80\x80 \xf8x",
    b"\xf4\x90\x80\x80",
    b"<s>\xfe</s>",
    b"\xe6\xbc\xa2\xe5\xad",
]

WORDS = sorted({word for text in PARAGRAPHS for word in text.split()})
SPACES = [
    " ",
    " ",
    " ",
    "  ",
    "   ",
    "\n",
    "\n\n",
    "\t",
    "\r\n",
    " \n",
    "\n ",
    "\u00a0",
    "\u2003",
    "\u3000",
    "\u200b",
    "\u0085",
]
EMOJI = ["👩‍🚀", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "👍🏽", "🦊", "❤️", "1️⃣", "🧑🏾‍🤝‍🧑🏻", "😀"]
MARKS = [chr(c) for c in range(0x300, 0x370)] + [
    "\u05b0",
    "\u0651",
    "\u093c",
    "\u094d",
    "\u3099",
    "\u0e33",
    "\u1161",
    "\u11a8",
]


# Every character that this Python's Unicode tables assign, but surrogates. Where they are newer than those of the
# system's PCRE2 and utf8proc, the library has other classes and lower case than the packages.
ASSIGNED = [
    chr(c)
    for c in range(0x110000)
    if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) not in ("Cn", "Co")
]
BMP = [c for c in ASSIGNED if c < "\u2000"]


def random_text(rng):
    """One text of a few dozen characters out of everything that tokenizers treat in their own way."""
    kinds = [
        lambda: rng.choice(WORDS),
        lambda: rng.choice(WORDS) + rng.choice(SPACES),
        lambda: rng.choice(SPACES),
        lambda: rng.choice(SPACES) * rng.randrange(1, 6),
        lambda: str(rng.randrange(10 ** rng.randrange(1, 12))),
        lambda: rng.choice(EMOJI),
        lambda: rng.choice("abcdefgxyzäéß") + "".join(rng.choice(MARKS) for _ in range(rng.randrange(1, 5))),
        lambda: rng.choice(ASSIGNED),
        lambda: "".join(rng.choice(BMP) for _ in range(rng.randrange(1, 8))),
        lambda: rng.choice(SPECIALS),
        lambda: rng.choice(["", " ", "\n"]) + rng.choice(SPECIALS) + rng.choice(["", " ", "\n"]),
        lambda: "".join(rng.choice("'’sStTmMdDrReElLvVaA \n") for _ in range(rng.randrange(1, 8))),
        lambda: "".join(rng.choice(".,;:!?()[]{}<>/\\|@#$%^&*-+=_~`\"' ") for _ in range(rng.randrange(1, 6))),
        lambda: chr(rng.randrange(32)),
        lambda: "▁" * rng.randrange(1, 3),
        lambda: rng.choice(["word", "Word", "WORD", "camelCase", "HTTPServer", "snake_case"]),
    ]
    weights = [8, 10, 3, 2, 3, 2, 2, 3, 2, 1, 2, 2, 3, 1, 1, 2]
    return "".join(rng.choices(kinds, weights)[0]() for _ in range(rng.randrange(0, 14)))


def random_texts(count, seed):
    rng = random.Random(seed)
    return [random_text(rng) for _ in range(count)]
