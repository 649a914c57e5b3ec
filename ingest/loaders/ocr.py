"""Words read from a picture: the engine, one for each process, and the lines it finds, upright and in pixels.

In: pixels. Out: `Seen`, its lines turned as a reader would hold the page. Must not: download anything (the models are
files of the installed package); be loaded before a picture is to be read; decide about limits or reading order.

The engine's steps are called one by one, because its one-call form turns line after line as it likes, wrongly now and
then, and hides that a page stood upside down, so that its lines come from bottom to top.
"""

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rag_service.errors import LoadFailed

if TYPE_CHECKING:
    from rapidocr import RapidOCR

Pixels = NDArray[np.uint8]  # rows, columns, and blue, green, red

# What rapidocr 3.10 carries in its wheel. Named, because a model that it looks up by itself would be downloaded.
MODELS = {
    "Det": "PP-OCRv6_det_small.onnx",
    "Cls": "ch_ppocr_mobile_v2.0_cls_mobile.onnx",
    "Rec": "PP-OCRv6_rec_small.onnx",
}
MIN_CONFIDENCE = 0.6  # of the recogniser, 0 to 1; below it words are guesses
BAND_PIXELS = 4_000_000  # read at once: an A4 page at 200 dpi
_DETECTED_PIXELS = 2_000_000  # shown to the detector, whose memory and time go with them
_BAND_OVERLAP = 160  # pixels; a line up to so high is whole in one band or the other
_MIN_BAND = 640
_LONG = 6  # of a line's length to its height, from which it shows a page's slant
_SAMPLE = 9  # lines; the longest tell whether a page stands upside down
_CERTAIN = 0.9  # of the classifier, 0 to 1
_TALL = 1.5  # height to width from which the engine takes a line to run up or down the page
_MIN_SIDE = 64  # pixels
_MAX_STRETCH = 3  # of the longer side to the shorter, as the detector is shown it


@dataclass(frozen=True, slots=True)
class SeenLine:
    """Words in one line without a wide gap, in pixels from the top left of the upright picture."""

    text: str
    left: float
    right: float
    middle: float
    height: float


@dataclass(frozen=True, slots=True)
class Seen:
    """A picture as read; `height` is that of the upright picture, `doubtful` the number of lines left out."""

    lines: tuple[SeenLine, ...]
    height: float
    doubtful: int = 0


@dataclass(frozen=True, slots=True)
class _Box:
    """A line as the detector finds it: its corners (4 by 2), clockwise from the first letter's top, and its pixels."""

    corners: NDArray[np.float64]
    crop: Pixels

    @property
    def across(self) -> float:
        return float(np.linalg.norm(self.corners[0] - self.corners[1]))

    @property
    def down(self) -> float:
        return float(np.linalg.norm(self.corners[0] - self.corners[3]))

    @property
    def is_tall(self) -> bool:
        """As the engine sees it, which turns such a line by a quarter before it reads it."""
        return self.down >= _TALL * self.across


def see(pixels: Pixels, threads: int) -> Seen:
    """Read a picture. Raises LoadFailed when the engine cannot be started; anything else means that this picture cannot
    be read."""
    engine = _engine(threads)
    pixels, boxes = _upright(engine, pixels)
    athwart = [index for index, box in enumerate(boxes) if box.is_tall]
    crops = [box.crop for box in boxes]
    if athwart:
        turned, _ = engine.cls_and_rotate([crops[index] for index in athwart])
        for index, crop in zip(athwart, turned, strict=True):
            crops[index] = crop
    read = engine.recognize_txt(crops) if crops else None
    texts = zip(boxes, read.txts or (), read.scores, strict=True) if read is not None else ()
    found = [(box, text.strip(), float(score)) for box, text, score in texts if text.strip()]
    kept = [(box, text) for box, text, score in found if score >= MIN_CONFIDENCE]
    return Seen(tuple(_straightened(kept)), float(pixels.shape[0]), len(found) - len(kept))


def _upright(engine: "RapidOCR", pixels: Pixels) -> tuple[Pixels, list[_Box]]:
    """The picture held as most of its lines run, and its lines."""
    boxes = list(_in_bands(engine, pixels))
    if sum(box.down for box in boxes if box.is_tall) > sum(box.across for box in boxes if not box.is_tall):
        pixels = np.ascontiguousarray(np.rot90(pixels))
        boxes = list(_in_bands(engine, pixels))
    longest = sorted((box for box in boxes if not box.is_tall), key=lambda box: -box.across)[:_SAMPLE]
    if longest:
        _, judged = engine.cls_and_rotate([box.crop for box in longest])
        down = sum(label == "180" and certainty > _CERTAIN for label, certainty in judged.cls_res or ())
        if down > len(longest) / 2:
            pixels = np.ascontiguousarray(np.rot90(pixels, 2))
            boxes = list(_in_bands(engine, pixels))
    return pixels, boxes


def _in_bands(engine: "RapidOCR", pixels: Pixels) -> Iterator[_Box]:
    """The lines of the whole picture, a band of it at a time. A line belongs to the band that its middle lies in."""
    height, width = pixels.shape[:2]
    most = max(_MIN_BAND, BAND_PIXELS // max(width, 1))
    bands = max(1, math.ceil((height - _BAND_OVERLAP) / (most - _BAND_OVERLAP)))
    band = math.ceil((height + (bands - 1) * _BAND_OVERLAP) / bands)
    for number in range(bands):
        start = number * (band - _BAND_OVERLAP)
        upper = start + _BAND_OVERLAP / 2 if number else -1
        lower = start + band - _BAND_OVERLAP / 2 if number < bands - 1 else height + 1
        for box in _boxes(engine, pixels[start : start + band]):
            box.corners[:, 1] += start
            if upper <= box.corners[:, 1].mean() < lower:
                yield box


def _boxes(engine: "RapidOCR", pixels: Pixels) -> Iterator[_Box]:
    """Looked for in a smaller copy, which finds as many lines in half the time; their pixels are those of the original."""
    import cv2  # loaded by now

    wide, (above, before) = _widened(pixels)
    scale = min(1.0, math.sqrt(_DETECTED_PIXELS / (wide.shape[0] * wide.shape[1])))
    shown = cv2.resize(wide, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA) if scale < 1 else wide
    boxes = getattr(engine(shown, use_det=True, use_cls=False, use_rec=False), "boxes", None)
    if boxes is None:
        return
    corners_of = (boxes / scale).astype(np.float32)
    for corners, crop in zip(corners_of, engine.crop_text_regions(wide, corners_of), strict=True):
        if crop.size:
            yield _Box(corners.astype(np.float64) - (before, above), crop)


def _straightened(lines: Sequence[tuple[_Box, str]]) -> Iterator[SeenLine]:
    """With a scan's slant taken out, so that what stands on one line has one height, and columns have straight edges."""
    long = [box for box, _ in lines if box.across > _LONG * box.down]  # the boxes of short ones slant by chance
    slopes = [slope for box in long for slope in [_slope(box)] * round(box.across)]
    slope = median(slopes) if slopes else 0.0
    for box, text in lines:
        x = box.corners[:, 0] + slope * box.corners[:, 1]
        y = box.corners[:, 1] - slope * box.corners[:, 0]
        yield SeenLine(text, float(x.min()), float(x.max()), float(y.mean()), max(box.down, 1.0))


def _slope(box: _Box) -> float:
    first, last = box.corners[0] + box.corners[3], box.corners[1] + box.corners[2]
    return float((last[1] - first[1]) / (last[0] - first[0])) if last[0] > first[0] else 0.0


def _widened(pixels: Pixels) -> tuple[Pixels, tuple[int, int]]:
    """With a margin above and before, and below and behind, where the picture is small or a strip: the detector enlarges
    the shorter side to 736 pixels, and the longer one with it."""
    rows, columns = pixels.shape[:2]
    least = max(_MIN_SIDE, -(-max(rows, columns) // _MAX_STRETCH))
    above, before = max(0, least - rows + 1) // 2, max(0, least - columns + 1) // 2
    if not (above or before):
        return np.ascontiguousarray(pixels), (0, 0)
    rim = np.concatenate((pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]))
    wide: Pixels = np.empty((rows + 2 * above, columns + 2 * before, 3), np.uint8)
    wide[:] = np.median(rim, axis=0)
    wide[above : above + rows, before : before + columns] = pixels
    return wide, (above, before)


@functools.lru_cache(maxsize=1)
def _engine(threads: int) -> "RapidOCR":
    """Loads in about a second. Raises LoadFailed that says what to do."""
    try:
        import cv2  # here, since these take a second and 100 MB: only who reads pictures pays for them
        import rapidocr

        cv2.setNumThreads(threads)
        models = Path(str(rapidocr.__file__)).parent / "models"
        missing = [name for name in MODELS.values() if not (models / name).is_file()]
        if missing:
            raise FileNotFoundError(f"{missing[0]} is missing in the installed package rapidocr")
        engine = rapidocr.RapidOCR(params=_parameters(models, threads))
        blank = np.full((64, 64, 3), 255, np.uint8)
        engine(blank, use_det=False, use_cls=True, use_rec=True)  # each model is loaded when it is first used: now
        engine(blank, use_det=True, use_cls=True, use_rec=True)
    except Exception as error:
        raise LoadFailed(
            f"OCR cannot be started ({error}); install rapidocr anew, or set RAG_OCR__ENABLED=false"
        ) from error
    return engine


def _parameters(models: Path, threads: int) -> dict[str, Any]:
    return {
        **{f"{stage}.model_path": str(models / name) for stage, name in MODELS.items()},
        "Global.log_level": "critical",  # an empty page is no warning
        "Global.use_preprocess_img": False,  # sizes are bounded before
        "Global.use_vertical_padding": False,
        "Rec.rec_batch_num": 1,  # on CPUs as fast as batches, which pad short lines to the longest
        "EngineConfig.onnxruntime.use_cuda": False,
        "EngineConfig.onnxruntime.intra_op_num_threads": threads,
        "EngineConfig.onnxruntime.inter_op_num_threads": 1,
    }
