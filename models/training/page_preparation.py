"""Page preparation for line segmentation, the same steps as the runtime (BDRC's second generation).

A grey page is reduced to at most two rows of tiles, or three if it is higher than wide, lit evenly, converted from sRGB to
linear light, binarised with a Gaussian window over the whole frame and cut into tiles of 512 pixels that are padded with paper.
"""

import cv2
import numpy as np

TILE = 512
MAX_WIDTH = 4096
MAX_HEIGHT = 2048
SNAP = 78
MAX_ROWS = 2
MAX_ROWS_PORTRAIT = 3
BLOCK_SIZE = 31
SQUARES, LEAST_SQUARE = 32, 16
PAPER, WELL_LIT, BRIGHT = 80, 75, 215
LEAST_GAIN, MOST_GAIN = 1.1, 3.5
OFFSET = 15


def frame_scale(width: int, height: int) -> float:
    """Down-scale factor of a page; the result is only applied when it is below 1."""
    if width > 2.5 * height:
        return min(TILE / height, MAX_WIDTH / width)
    scale = min(MAX_WIDTH / width, MAX_HEIGHT / height, 1.0)
    if 384 < height * scale < TILE:
        scale = TILE / height
    scaled = height * scale
    if scaled > TILE:
        boundary = TILE * (int((scaled - TILE) // TILE) + 1)
        if 0 < scaled - boundary <= SNAP:
            scale = boundary / height
    max_rows = MAX_ROWS_PORTRAIT if height > width else MAX_ROWS
    if height * scale > max_rows * TILE:
        scale = max_rows * TILE / height
    return scale


def frame_size(width: int, height: int) -> tuple[int, int]:
    """Width and height of the frame of a page."""
    scale = frame_scale(width, height)
    if scale >= 1:
        return width, height
    return max(1, int(width * scale)), max(1, int(height * scale))


def _linear_table() -> np.ndarray:
    x = np.arange(256, dtype=np.float32) / 255
    linear = np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)
    return np.floor(255 * linear + 0.5).astype(np.uint8)


LINEAR = _linear_table()


def is_bilevel(grey: np.ndarray) -> bool:
    """True when a strided sample of the page holds nothing but black and white."""
    step_y, step_x = max(1, grey.shape[0] // 512), max(1, grey.shape[1] // 512)
    return bool(np.isin(grey[::step_y, ::step_x], (0, 255)).all())


def _neighbourhoods(values: np.ndarray, summary) -> np.ndarray:
    padded = np.pad(values, 1, constant_values=np.nan)
    rows, columns = values.shape
    near = [padded[y : y + rows, x : x + columns] for y in range(3) for x in range(3)]
    return summary(np.stack(near), axis=0)


def even_light(grey: np.ndarray) -> np.ndarray:
    """The page with its shadows brightened to its well lit parts, and a dim page brightened: `page/illumination.rs`."""
    height, width = grey.shape
    side = max(LEAST_SQUARE, min(width, height) // SQUARES)
    rows, columns = -(-height // side), -(-width // side)
    papers = np.empty((rows, columns))
    for row in range(rows):
        for column in range(columns):
            square = np.sort(grey[row * side : (row + 1) * side, column * side : (column + 1) * side], axis=None)
            papers[row, column] = square[len(square) * PAPER // 100]
    papers = _neighbourhoods(_neighbourhoods(papers, np.nanmax), np.nanmean)
    well_lit = max(np.sort(papers, axis=None)[(papers.size - 1) * WELL_LIT // 100], BRIGHT)
    gains = np.clip(well_lit / np.maximum(papers, 1), 1, MOST_GAIN).astype(np.float32)
    if not (gains > LEAST_GAIN).any():
        return grey
    whole = cv2.resize(gains, (columns * side, rows * side), interpolation=cv2.INTER_LINEAR)[:height, :width]
    return np.minimum(grey * whole + 0.5, 255).astype(np.uint8)


def binarise(frame: np.ndarray) -> np.ndarray:
    """Linearised and binarised frame, 1 = paper, 0 = ink."""
    black_white = cv2.adaptiveThreshold(
        LINEAR[frame], 255, cv2.ADAPTIVE_THRESH_GAUSSIAN_C, cv2.THRESH_BINARY, BLOCK_SIZE, OFFSET
    )
    return (black_white > 0).astype(np.uint8)


def prepare(grey: np.ndarray, size: tuple[int, int] | None = None) -> np.ndarray:
    """Frame of a grey page, 1 = paper, 0 = ink; `size` overrides the width and height of the frame."""
    height, width = grey.shape
    target = size or frame_size(width, height)
    if target == (width, height):
        return (grey > 0).astype(np.uint8) if is_bilevel(grey) else binarise(even_light(grey))
    frame = cv2.resize(grey, target, interpolation=cv2.INTER_AREA)
    return binarise(frame if is_bilevel(grey) else even_light(frame))


def tiles(frame: np.ndarray, fill: int = 1) -> np.ndarray:
    """Tiles [rows, columns, 512, 512] of a frame, padded right and bottom with `fill`."""
    height, width = frame.shape
    rows, columns = -(-height // TILE), -(-width // TILE)
    padded = np.full((rows * TILE, columns * TILE), fill, frame.dtype)
    padded[:height, :width] = frame
    return padded.reshape(rows, TILE, columns, TILE).swapaxes(1, 2)


def stitch(tile_grid: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Inverse of `tiles` for a frame of `size` (width, height)."""
    rows, columns = tile_grid.shape[:2]
    whole = tile_grid.swapaxes(1, 2).reshape(rows * TILE, columns * TILE)
    return whole[: size[1], : size[0]]
