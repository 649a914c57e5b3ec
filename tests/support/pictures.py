"""Pictures of text for tests of what is read by OCR.

In: lines of text. Out: Pillow images as a clean scan would give them. Must not: need a font of the machine.
"""

from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont


def picture(
    lines: Sequence[str], size: tuple[int, int] = (1000, 400), *, x: int = 60, letters: int = 36
) -> Image.Image:
    """Black letters of so many pixels on white."""
    image = Image.new("L", size, 255)
    write(image, lines, x=x, letters=letters)
    return image


def write(image: Image.Image, lines: Sequence[str], *, x: int = 60, y: int = 50, letters: int = 36) -> None:
    """One line below the other, from the left edge `x` and the top `y`."""
    font = ImageFont.load_default(size=letters)
    for number, line in enumerate(lines):
        ImageDraw.Draw(image).text((x, y + number * letters * 1.6), line, fill=0, font=font)
