"""The estimate beside real tokenizers: enough for ordinary text of all kinds, and within its margin for the worst."""

import random
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_service.index.embeddings import EmbeddingModel
from rag_service.index.settings import EmbeddingsSettings
from rag_service.index.token_estimate import SHARE, estimate_tokens

ROOT = Path(__file__).parents[2]
PROSE = ROOT.parent / "shared" / "eval" / "chunking" / "corpora"
CHUNK_CHARS = 900
MOST_CHUNKS = 150  # of one kind

WORDS = {
    "german": "Jede fest angestellte Arbeitnehmerin hat Anspruch auf fünfundzwanzig Urlaubstage im Kalenderjahr. ",
    "finnish": "Jokaisella vakituisella työntekijällä on oikeus kahdenkymmenenviiden päivän vuosilomaan. ",
    "vietnamese": "Mỗi nhân viên chính thức được hưởng hai mươi lăm ngày nghỉ phép có lương mỗi năm. ",
    "russian": "Каждый штатный сотрудник имеет право на ежегодный оплачиваемый отпуск. ",
    "chinese": "每位正式员工每年享有二十五天带薪年假，须至少提前七个工作日申请。",
    "japanese": "すべての正社員は年間二十五日の有給休暇を取得できます。事前にカタカナで申請してください。",
    "korean": "모든 정규직 직원은 연간 이십오 일의 유급 휴가를 사용할 수 있으며 미리 신청해야 합니다. ",
    "thai": "การลาพักร้อนของพนักงานประจำมีสิทธิได้รับปีละยี่สิบห้าวัน โดยต้องแจ้งล่วงหน้าอย่างน้อยเจ็ดวันทำการ ",
    "hindi": "प्रत्येक स्थायी कर्मचारी को वर्ष में पच्चीस दिन का सवेतन अवकाश मिलता है ",
    "arabic": "يحق لكل موظف دائم الحصول على إجازة سنوية مدتها خمسة وعشرون يومًا مدفوعة الأجر ",
    "emoji": "😀🎉👩‍👩‍👧‍👦🏳️‍🌈 ok ",
    "rules": "| --- | :---: | ---: |\n====......\n",
}


def samples() -> Iterator[tuple[str, str]]:
    dice = random.Random(1)
    yield from ((name, words * 40) for name, words in WORDS.items())
    yield "base64", b64encode(dice.randbytes(20_000)).decode()
    yield "hex", "\n".join(f"{dice.getrandbits(128):032x}" for _ in range(300))
    yield "numbers", "\n".join("; ".join(f"{dice.random() * 10**5:,.2f}" for _ in range(8)) for _ in range(200))
    yield "code", "\n".join(path.read_text() for path in sorted((ROOT / "rag_service" / "index").glob("*.py")))
    yield "markdown", "\n".join(path.read_text() for path in sorted((ROOT / "data" / "corpus").rglob("*.md")))
    for path in sorted(PROSE.glob("*.md")):
        yield path.stem, path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def model() -> EmbeddingModel:
    return EmbeddingModel(EmbeddingsSettings())


@pytest.mark.parametrize(("name", "text"), [pytest.param(*sample, id=sample[0]) for sample in samples()])
def test_br_12_the_estimate_is_not_below_what_the_model_counts(model: EmbeddingModel, name: str, text: str) -> None:
    step = max(CHUNK_CHARS, len(text) // MOST_CHUNKS)
    chunks = [text[start : start + CHUNK_CHARS] for start in range(0, len(text), step)]
    for chunk, real in zip(chunks, model.count_tokens(chunks), strict=True):
        assert estimate_tokens(chunk) >= real, chunk
    parts = [chunk[:120] for chunk in chunks]
    for part, real in zip(parts, model.count_tokens(parts), strict=True):
        assert estimate_tokens(part) >= real * SHARE, part


@given(st.text(max_size=200))
def test_the_estimate_is_at_least_nothing_and_grows_with_the_text(text: str) -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens(text) >= len(text.split())
    assert estimate_tokens(text + " word") > estimate_tokens(text)
