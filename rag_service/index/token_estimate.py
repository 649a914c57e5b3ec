"""Tokens of a text for a model whose tokenizer is not at hand: rather too many than too few.

In: texts. Out: for each a number that is no less than what common tokenizers make of ordinary text (WordPiece, SentencePiece
and byte-level BPE; prose in any language, code, tables of numbers, base64). Must not: do I/O (pure, standard library).

Text made to be costly can have more tokens, so `SHARE` of what the model reads is all that an estimate may fill.
tests/index/test_token_estimate.py compares with real tokenizers.
"""

import re
from math import ceil

SHARE = 0.75

# A run of letters, of digits, of white space, another ASCII character, a run of anything else.
PIECES = re.compile(r"([A-Za-z]+)|([0-9]+)|(\s+)|([\x00-\x7f])|([^\x00-\x7f]+)")
WORD = re.compile(r"[A-Za-z]?[a-z]{0,15}|[A-Z]{1,4}")  # others (base64, capitals) are cut far smaller
# Letters of a word for each token: English has 4 and more, long German words in an English vocabulary somewhat over 2.
LETTERS = 3
LONG_WORD, LETTERS_OF_LONG = 7, 2.5
ODD_LETTERS = 1.3  # of other runs
HANGUL = re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7ff]")


def estimate_tokens(text: str) -> int:
    total = 0
    for match in PIECES.finditer(text):
        kind, piece = match.lastindex, match[0]
        if kind == 1:
            total += _of_letters(piece)
        elif kind == 2:
            total += len(piece)  # many tokenizers take each digit alone
        elif kind == 3:
            total += 0 if piece == " " else (len(piece) + 3) // 4
        elif kind == 4:
            total += 1
        else:
            total += sum(_of_character(character) for character in piece)
    return total


def _of_letters(run: str) -> int:
    if not WORD.fullmatch(run):
        return ceil(len(run) / ODD_LETTERS)
    return ceil(len(run) / (LETTERS if len(run) < LONG_WORD else LETTERS_OF_LONG))


def _of_character(character: str) -> int:
    """At most its bytes, which is all that a byte-level tokenizer can cut it into; fewer for scripts that common ones know."""
    code = ord(character)
    if code >= 0x10000:
        return 4
    if code < 0x0800 or (code >= 0x2E80 and not HANGUL.match(character)) or 0x0900 <= code < 0x1000:
        return 2  # Latin with accents, Greek, Cyrillic, Arabic; Chinese, Japanese; scripts of India, Thai
    return 3
