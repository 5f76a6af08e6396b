"""Small pictures of worlds in the plane, drawn with NumPy alone: no graphics library is needed."""

import numpy as np
from jaxtyping import UInt8

Colour = tuple[int, int, int]

GREY: Colour = (110, 110, 110)
GREEN: Colour = (120, 190, 120)
RED: Colour = (205, 90, 80)
BLUE: Colour = (50, 90, 180)

#: Width of a picture in pixels.
WIDTH = 240


class Raster:
    """A white picture of the rectangle from (left, bottom) to (right, top); y points up."""

    def __init__(self, left: float, bottom: float, right: float, top: float):
        height = round(WIDTH * (top - bottom) / (right - left))
        pixel = (right - left) / WIDTH
        self._x = left + pixel * (np.arange(WIDTH) + 0.5)[None, :]
        self._y = top - pixel * (np.arange(height) + 0.5)[:, None]
        self.pixels: UInt8[np.ndarray, "height width 3"] = np.full((height, WIDTH, 3), 255, "uint8")

    def rectangle(
        self, left: float, bottom: float, right: float, top: float, colour: Colour
    ) -> None:
        """Fill a rectangle."""
        inside = (left <= self._x) & (self._x <= right) & (bottom <= self._y) & (self._y <= top)
        self.pixels[inside] = colour

    def disk(self, x: float, y: float, radius: float, colour: Colour) -> None:
        """Fill a disk."""
        self.pixels[(self._x - x) ** 2 + (self._y - y) ** 2 <= radius**2] = colour

    def segment(
        self, start: tuple[float, float], stop: tuple[float, float], width: float, colour: Colour
    ) -> None:
        """Draw a line with round ends."""
        (x, y), dx, dy = start, stop[0] - start[0], stop[1] - start[1]
        along = ((self._x - x) * dx + (self._y - y) * dy) / (dx**2 + dy**2)
        along = np.clip(along, 0, 1)
        away = (self._x - x - along * dx) ** 2 + (self._y - y - along * dy) ** 2
        self.pixels[away <= (width / 2) ** 2] = colour
