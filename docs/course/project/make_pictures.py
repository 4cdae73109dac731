"""Draw pictures to train on, if you have none of your own.

``python make_pictures.py`` makes the folder ``pictures`` with 60 rings, 60
squares and 60 triangles. For pictures that your program has not seen, give
another folder and another seed::

    python make_pictures.py --folder new --count 5 --seed 1

The same seed draws the same pictures. This needs Pillow.
"""

import argparse
import random
from pathlib import Path

from PIL import Image, ImageDraw


def draw(shape, numbers):
    """Return a picture of a shape of random size, place and color."""
    size = numbers.randint(32, 64)  # pixels
    paper = tuple(numbers.randint(160, 255) for _ in range(3))
    ink = tuple(numbers.randint(0, 120) for _ in range(3))
    radius = size * numbers.uniform(0.3, 0.45)
    x = numbers.uniform(radius, size - radius)
    y = numbers.uniform(radius, size - radius)
    image = Image.new("RGB", (size, size), paper)
    pen = ImageDraw.Draw(image)
    if shape == "ring":
        box = (x - radius, y - radius, x + radius, y + radius)
        pen.ellipse(box, outline=ink, width=size // 8)
    else:
        sides = {"triangle": 3, "square": 4, "hexagon": 6}[shape]
        pen.regular_polygon((x, y, radius), sides, fill=ink)
    return image


def draw_folder(folder, count, seed):
    """Fill a new folder: one folder for each shape, with so many pictures."""
    numbers = random.Random(seed)
    for shape in ("ring", "square", "triangle"):
        place = Path(folder, shape)
        place.mkdir(parents=True)
        for number in range(1, count + 1):
            draw(shape, numbers).save(place / f"{number}.png")


def main():
    """Draw what the command line asks for."""
    parser = argparse.ArgumentParser(
        description="Draw rings, squares and triangles to train on.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--folder", default="pictures", help="where to put them")
    add("--count", type=int, default=60, help="how many of each shape")
    add("--seed", type=int, default=0, help="of all random numbers")
    options = parser.parse_args()
    if Path(options.folder).exists():
        raise SystemExit(
            f"{options.folder} exists already: remove it, or give another"
            " folder with --folder"
        )
    draw_folder(options.folder, options.count, options.seed)
    print(f"drew 3 x {options.count} pictures in {options.folder}")


if __name__ == "__main__":
    main()
