"""Texts on which two tokenizers that differ are likely to show it.

Special tokens whole, cut, doubled and inside words; all scripts; white space in runs;
code; digits; odd Unicode. A tokenizer that gives the same ids for all of them as the
reference is taken for the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

# Letters that look alike are what the probes are for.
# ruff: noqa: RUF001
TEXTS = (
    "",
    " ",
    "Hello, world!",
    "  two  spaces\tand a tab \n\n\n newlines \r\n  ",
    "\n" * 9 + " " * 33 + "\t" * 5,
    " \n \t \r\r\n\n x\n  y\n\n    z \u2003 \u3000\u00a0\u00a0 \x0b\x0c end  ",
    "".join(" " * n + "a" for n in range(20)) + "".join("\n" * n + "b" for n in range(9)),
    "def f(x: int) -> str:\n    return f'{x!r}'  # naïve\n\n\nclass A:\n\tpass\n",
    '#include <a.h>\nint main(void){for(int i=0;i<10;++i)printf("%d\\n",i);}//e\n/* c */',
    "SELECT * FROM `t` WHERE a<>b && c!=d||e; x->y::z => !! ?? ... ;;; ``` ''' \"\"\"",
    '{"name": "get_weather", "arguments": {"city": "Zürich", "days": [1, 2, 3.50, -4e10]}}',
    "<html><body class='a b'>&nbsp;&amp;</body></html><!-- x --><?xml version=\"1.0\"?>",
    "0 12 345 6789 01234567890 3.14159 1,000,000 0x1F \u0661\u0662 \u096a\u096b \u00bd \u2168",
    "1234567 12 123 1234 12345 a1b22c333d4444 1st 2nd 10th 5\u00b2 \u2460\u3231 \uff11\uff12\uff13",
    "I'm you're HE'S we'Ll don't 'tis it\u2019s",
    "camelCaseWords XMLHttpRequest SCREAMING_SNAKE kebab-case ALLCAPS mIxEd iPhone o'Neill's",
    "https://example.org/a_b?d=%20&e=1#f me@example.org C:\\dir\\file.txt $PATH && ls | wc",
    "Größe, Übung, façade, coöperate, Ångström, crème brûlée",
    "e\u0301 a\u030a \ufb01 \uff21\uff22\uff23 \u2126 \u212b \u1e9b\u0323 \ufdfa",
    "a\u0323\u0302 \u1ea1\u0302 \u0958 \u0915\u093c \u1100\u1161\u11a8 \uac01 \u2f00 \uf900",
    "你好，世界！今天天气怎么样？ 日本語のテキストと漢字カナ ｶﾅ 한국어 문장입니다",
    "中文English混合123数字，标点。“引号”《书名》—破折号……\u3400\U00020000\u9fff",
    "Привет, мир! Γειά σου Κόσμε שלום עולם مرحبا بالعالم नमस्ते दुनिया สวัสดีชาวโลก",
    "வணக்கம் నమస్కారం ನಮಸ್ಕಾರ ഹലോ হ্যালো ਸਤ ਸ੍ਰੀ ສະບາຍດີ မင်္ဂလာပါ សួស្តី ආයුබෝවන් ᏣᎳᎩ",
    "Բարեւ გამარჯობა ሰላም ⴰⵣⵓⵍ བཀྲ་ཤིས ᠮᠣᠩᠭᠣᠯ ꦗꦮ \U00010400\U00010428 \U0001e900",
    "שָׁלוֹם مُحَمَّد ‏rtl‎ क्षत्रिय ǅ ǆ İ ı ß ẞ ſ \u01c5 \u02b0\u2071\u2c7c",
    (
        "\U0001f680 \U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f3f4"
        "\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
        " \u2764\ufe0f \U0001f1e9\U0001f1ea"
    ),
    "∑∫√∞≠≤±×÷ → ⇒ ∀x∈ℝ: x²≥0 € £ ¥ ₹ ₿ ° ‰ § ¶ † ‡ • … – — ‘’ “” « » ¿ ¡",
    "\u200b\u200d\ufeff\u00a0\u2028\u2029\u0085\u3000\u00ad\u202e zero widths and odd spaces",
    "\x00\x01\x07\x1b[31m control \x7f characters",
    "\ue000\uf8ff\U000f0000 private use, \ufffd \uffff \U0010ffff",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "=====----_____.....!!!!!?????((((([[[[[{{{{{<<<<<",
    "Z\u0351\u036b\u0343a\u0321\u0353l\u0349\u031cg\u0332\u0331o\u0338 combining marks in a heap",
    "\u2581underlined\u2581\u2581metaspace <0x0A> <unk> <s> </s> <pad>",
    "<| im_start |> <|im_start |><|im_end|>< |im_end|> [INST] [/INST] <think></think>",
)


def probes(added: Sequence[str]) -> Iterator[str]:
    """Yields the texts, and some about a vocabulary's added tokens.

    Args:
        added: The added tokens, of which only the ends of a long list are taken: some
            vocabularies reserve a thousand.
    """
    yield from TEXTS
    some = [*added[:64], *added[64:][-64:]]
    for token in some:
        yield f"{token}a{token} b {token}\n{token}{token}"
        yield f"x{token}x 1{token}\u4f60 \t{token}  \n\n{token} "
        yield token[:-1]
        yield f"{token[:1]}{token}{token[1:]}"
    yield "".join(some)
    yield " ".join(TEXTS)
    yield "".join(f"{text}{token}" for text, token in zip(TEXTS, some, strict=False))
