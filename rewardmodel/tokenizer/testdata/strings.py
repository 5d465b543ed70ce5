"""The strings of the golden files: hand-written ones, and mixtures of them from a fixed seed.

`strings()` yields bytes, because text from outside need not be valid UTF-8.
"""
import random

SENTENCES = r"""
The quick brown fox didn't expect the lazy dog to jump back, and neither did we.
I'd have told you sooner if you'd asked; they're late, we've waited, he'll come, I'm sure it's fine.
She said: "That's John's, isn't it?" and walked away.
It’s the dogs’ bowl, ‘quoted’ and “doubly quoted”, isn’t it?
IT'S NOT WHAT YOU'LL THINK, WE'RE DONE, I'M OUT, THEY'D KNOW, DON'T.
Please do not send money to anyone you have not met in person.
You are the worst assistant I have ever talked to, honestly.
Of course! Here is a short list of things that you can cook in under ten minutes.
Prices rose 3.5% to $1,299.99 (about €1.150,00) between 2019-03-04 and 12/31/2021.
Call +1 (555) 010-9999 or write to first.last+tag@mail.example.co.uk before 5:30pm.
See https://example.org/a/b?q=1&r=%20x#frag_2, ftp://host.invalid:21/~user/ and www.test.example.
Version v1.2.3-rc.4+build.567 fixes issue #1234 in /usr/local/lib/python3.11/site-packages.
Supercalifragilisticexpialidocious antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis.
Wait... what?! No -- really --- yes ---- maybe ----- ok ------ fine.
We met at 10 a.m. in St. John's, N.L., with Dr. O'Neill et al. (cf. Fig. 3b).
naïve café résumé coöperate Zürich Ærøskøbing São Paulo Łódź Đà Nẵng Ångström
Straße GROẞ Maß ſtraße ﬁn ﬂow ǅ ǈ ǋ ǲ Ǆ Ǉ İstanbul Iğdır ışık İI ıi
Привет, как дела? Я не хочу говорить об этом сегодня. ЁЖ ёж й й
Доброго дня, це ґанок і їжак, а не щось інше.
Γειά σου Κόσμε, ο Οδυσσέας ΟΔΥΣΣΕΑΣ ήταν εδώ· τι κάνεις;
שלום עולם, מה שלומך היום? שָׁלוֹם
مرحبا بالعالم، كيف حالك اليوم؟ السَّلَامُ عَلَيْكُمْ ١٢٣٤٥
سلام دنیا، می‌خواهم چای بنوشم؛ ۱۲۳
नमस्ते दुनिया, आप कैसे हैं? यह क्षत्रिय का ज्ञान है। १२३
ওহে বিশ্ব, তুমি কেমন আছো? কো কৌ ০১২
வணக்கம் உலகம், எப்படி இருக்கிறீர்கள்? கொ கௌ
నమస్కారం ప్రపంచం ఎలా ఉన్నారు
ಕನ್ನಡ ನಮಸ್ಕಾರ ಕೊ ಕೋ
മലയാളം നമസ്കാരം കൊ
สวัสดีชาวโลก วันนี้เป็นอย่างไรบ้าง ๑๒๓
ສະບາຍດີ ໂລກ
မင်္ဂလာပါ ကမ္ဘာ
សួស្តី​ពិភពលោក
გამარჯობა მსოფლიო ᲒᲐᲛᲐᲠᲯᲝᲑᲐ
Բարեւ աշխարհ, ինչպե՞ս ես։
ሰላም ለዓለም፣ እንዴት ነህ። ፩፪፫
你好，世界！今天天气怎么样？我觉得“还可以”。（真的）
こんにちは世界。今日はいい天気ですね！カタカナ ﾊﾝｶｸ ガ ガ
안녕하세요 세계! 오늘 날씨가 어때요? 한글 각 가 ㄱㄴㄷ
Xin chào thế giới, hôm nay trời đẹp quá! ệ ệ ệ
ᐊᐃᓐᖓᐃ ᓄᓇᕐᔪᐊᖅ ᏣᎳᎩ ꮳꮃꭹ ᚠᚢᚦ 𐌰𐌱 𐐀𐐨 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟘𝟙𝟚 ⅣⅫ ①② ½ ² ₂ ㊿
Tamaziɣt ⵜⴰⵎⴰⵣⵉⵖⵜ བོད་སྐད། ꦧꦱꦗꦮ ᮘᮞ ᠮᠣᠩᠭᠣᠯ 𞤀𞤣𞤤𞤢𞤥 𞤢
def f(x, *, y=1):\n    return {"a": [x ** 2, y // 3], 'b': None}  # comment
for (int i = 0; i < n; ++i) { a[i] += b[i] * 0x1F; /* why? */ }\n\n\treturn a;
SELECT id, COUNT(*) FROM t WHERE x >= 10 AND y != 'it''s' GROUP BY id;\r\n
| name | value |\n|------|------:|\n| a    |    1  |\n| `b`  | **2** |
# Heading\n\n* item one\n* item two\n    - nested\n\n> quote\n\n```go\nfmt.Println("hi")\n```\n
<html><body class="a b">&amp; &#x27;x&#x27;</body></html>
{"id": 7, "text": "line\\nbreak \\u00e9", "ok": true, "list": [1, 2.5e-3, null]}
x = y₁ + ∑ᵢ αᵢ·βᵢ ≤ ∞ ∧ ¬p → q ≠ r ≈ s ∈ ℝ ℵ ℏ K Å Ω ℃
LOL!!!111 omg :-) :( ;P <3 ^_^ ¯\\_(ツ)_/¯ (╯°□°)╯︵ ┻━┻
A man 🙂 with 👩‍👩‍👧‍👦 and 👍🏽👍🏿, 🏳️‍🌈 🇫🇷🇩🇪, 1️⃣ ❤️ ☺︎ 🧑🏻‍💻 🤷‍♀️ 🫠🫨🪿
Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘!͖̬̰̙̗̿̋ͥͥ
""".strip("\n").split("\n")

SPACES = [" ", "\t", "\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1f", "\x85", "\xa0", "\u1680", "\u180e", "\u2000", "\u2001",
          "\u2002", "\u2003", "\u2004", "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200a", "\u200b", "\u2028", "\u2029",
          "\u202f", "\u205f", "\u2060", "\u3000", "\ufeff"]

LITERALS = ["<s>", "</s>", "<pad>", "<unk>", "<mask>", " <mask>", "<mask> ", "[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]", "[mask]",
            "</s></s>", "<s><s>", "x</s>y", "<mask", "mask>", "[ MASK ]", "<|endoftext|>", "[unused1]", "##ing", "Ġthe", "Ċ", "▁a"]

WORDS = ("the of and to in a is that it was for on with he be I by at you are not his from they she or had we an one all there "
         "would their which have this out up said what its about into than them can only other time new some could these two may "
         "then do first any now such like our over man even most made after also did many before must through back years where "
         "much your way well down should because each just those people how too little state good very make world still own see "
         "men work long get here between both life being under never day same another know while last might us great old year off "
         "come since against go came right used take three reward model token sentence violation compliant harmful polite "
         "internationalization uncharacteristically misunderstanding overwhelmingly").split()

EDGES = ["", " ", "  ", "\n", "'", "''", "'s", " 's", "'S", "' s", "x's", "x'S", "x’s", "'re", "'RE", "'ve'll'd'm't", "''s", "'s's",
         "a'b", "can't've", "-----", "--------", "=====", "......", "!!!!!!!!!", "aaaaaaaaaa", "abababababab", "a  b", "a   b", "a \n b",
         "a\n\nb", "a\n \nb", " a", "  a", "a ", "a  ", "\ta", "a\t", "\t\t\ta", "\n\n\n", " \n", "\n ", " \u00a0a", "\u00a0 a", "\u3000a",
         "a\u3000", "1 2  3   4", "1a2b3c", "a1 1a", "½a", "a½", "²", "٣٤٥x", "_x_", "__init__", "a_b", "ſ", "K", "Å", "\x00", "a\x00b",
         "\x7f", "\x1b[31mred\x1b[0m", "\ufffd", "a\ufffdb", "\u200d", "a\u200db", "\u00ad", "co\u00adop", "\ue000", "\U000f0000", "\U0010fffd",
         "\u0301", "e\u0301", "e\u0323\u0301", "e\u0301\u0323", "\u1e69", "\u1e9b\u0323", "\u0344", "\u0344\u0323", "\u0958", "\u2adc",
         "\u1100\u1161\u11a8", "\uac01\u11a7", "\ufb1d", "\u0f73", "\u0f75\u0f71", "\U0001d15e", "\U0001d157\U0001d165\U0001d16e",
         "a\U0001d165\u0323b", "\u302e\u0323", "ก\u0e38\u0e48", "\u1b06\u1b44", "\U000110ab", "\uf900", "\ufa2a", "\u2f800", "\U0002f800",
         "\U00020000", "\U0002b820", "\U0002b920", "\U0002ceb0", "\u9fff", "\ua000", "\u4e00a\u4e00", "a\u4e00", "\u037e", "\u1fef", "\u2260",
         "\u226e\u226f", "<\u0338", "\u212a", "\u2126", "\u1fbe", "\u0130", "\u0130\u0307", "i\u0307", "\u0131", "\u01c5", "\u1e9e", "\u03a3",
         "\u03c2", "ΑΣ", "\u10a0", "\u13a0", "\uab70", "\U00010400", "\U0001e900", "\u1c89", "\ua7cb", "\U00010d50", "\u2c2f", "\u2e5d",
         "\u0898", "a\u0898b", "\u1ac1x", "\u08e2", "\u0890", "\u061c", "\u061d", "\u166d", "\U000111c9", "\u1734", "\u1715", "\U00011938",
         "\U0001fae8", "\u0378", "\U0003134f", "\U000e0041", "\U000e0101", "\ufe0f", "\u20e3", "\u0e31", "\u09be", "\u0bca", "\u0cca"]

INVALID = [b"\x80", b"\xff\xfe", b"a\xc3", b"\xc3(", b"\xe2\x82", b"\xe2\x82x", b"\xf0\x9f\x98", b"\xf0\x9f\x98\x80\x80", b"\xed\xa0\x80",
           b"\xed\xb0\x80", b"\xc0\xaf", b"\xf5\x80\x80\x80", b"\xf4\x90\x80\x80", b"ok \xe9t\xe9 caf\xe9", b"\xef\xbf\xbd\x80", b" \x80 ",
           b"\x80\x80\x80 x", b"word\x80word", b"'s\x80's", b"\xe4\xbd\xa0\xe5\xa5", b"\xfe\xff\x00h\x00i", b"\xc3\xa9\xc3"]


def unescape(line):
    return line.replace("\\n", "\n").replace("\\r", "\r").replace("\\t", "\t")


def noise(r):
    """A random character: half the time from all of Unicode, otherwise from blocks that text uses."""
    kind = r.random()
    if kind < 0.3:
        c = r.randrange(0x20, 0x250)
    elif kind < 0.5:
        c = r.randrange(0x250, 0x3100)
    elif kind < 0.6:
        c = r.choice([r.randrange(0x300, 0x370), r.randrange(0x1AB0, 0x1B00), r.randrange(0x1DC0, 0x1E00), r.randrange(0x20D0, 0x2100)])
    elif kind < 0.8:
        c = r.randrange(0x3100, 0x10000)
    elif kind < 0.95:
        c = r.randrange(0x10000, 0x1FB00)
    else:
        c = r.randrange(0x110000)
    return "" if 0xD800 <= c <= 0xDFFF else chr(c)


def strings():
    r = random.Random(20260401)
    sentences = [unescape(s) for s in SENTENCES]
    texts = list(sentences) + EDGES + SPACES + LITERALS
    for s in sentences:  # each in several forms
        texts += [s.upper(), s.lower(), s.title(), s.replace(" ", "  "), s.replace(" ", "\n"), " " + s + " ", s.replace(" ", "")]
    for a in SPACES:  # each white space in each context, and pairs
        texts += ["x" + a + "y", a + "y", "x" + a, "x" + a * 3 + "y", "x " + a + "y", "x" + a + " y", "1" + a + "!", a + "'s"]
        texts += ["x" + a + r.choice(SPACES) + r.choice(SPACES) + "y" for _ in range(6)]
    for s in LITERALS:
        texts += ["a" + s, s + "b", "a " + s + " b", s * 3, r.choice(sentences) + s + r.choice(sentences)]
    for start in range(0, 0x32000, 0x80):  # three samples of every 128 code points
        for kind in range(2):
            chars = [chr(c) for c in sorted(r.sample(range(start, start + 0x80), 10)) if not 0xD800 <= c <= 0xDFFF]
            if chars and start < (0x3400 if kind else 0x32000) or 0x10000 <= start < 0x1FC00 or 0xA000 <= start < 0xB000:
                texts.append(r.choice(["", " ", "a"]).join(chars))
    for _ in range(500):  # random characters, including marks
        texts.append("".join(noise(r) for _ in range(r.randrange(1, 14))))
    for _ in range(200):  # long words, above and below the limits
        texts.append("".join(r.choice(WORDS) for _ in range(r.choice([2, 5, 12, 20, 21, 22, 24]))))
    for n in (31, 32, 33, 63, 64, 65, 99, 100, 101, 128, 1000):
        for c in ("a", "é", "한", "-", "9", "ab", "́", "字", " ", "\n", "😀"):
            texts.append(c * n)
    for _ in range(250):  # prose
        texts.append(" ".join(r.choice(WORDS) for _ in range(r.randrange(3, 18))) + r.choice([".", "!", "?", "...", "", "'s", " "]))
    pieces = sentences + EDGES + SPACES + LITERALS + WORDS
    while len(texts) < 3250:  # mixtures
        parts = [r.choice(pieces)[: r.randrange(1, 40)] for _ in range(r.randrange(2, 6))]
        texts.append(r.choice(["", " ", "", "\n"]).join(parts))
    out = [t.encode() for t in texts]
    for b in INVALID:
        out += [b, b"a" + b + b"b", b" " + b + b" x", b + "é".encode() + b, "字".encode() + b + b"'s"]
    for _ in range(120):  # truncated or corrupted at any byte
        data = bytearray(r.choice(sentences).encode()[: r.randrange(10, 90)])
        for _ in range(r.randrange(1, 4)):
            data[r.randrange(len(data))] = r.randrange(256)
        out.append(bytes(data))
    return list(dict.fromkeys(out))


def repair(data):
    """The text with U+FFFD for each byte that is invalid for Go's range."""
    out, i = [], 0
    while i < len(data):
        for n in (1, 2, 3, 4):
            try:
                out.append(data[i : i + n].decode("utf-8"))
                i += n
                break
            except UnicodeDecodeError:
                pass
        else:
            out.append("\ufffd")
            i += 1
    return "".join(out)
