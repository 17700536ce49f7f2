"""Random integers, angles and noise for generated images: the same on every machine, with a stream for each row.

Draws are hashes (SplitMix64) of a key, the row and the draw's number. They use fixed-width integer arithmetic and no
library's random stream. An image depends only on its row, so a longer set begins with the shorter one.
"""

import numpy as np

# Cosines of 1024 angles in 1/4096. Libraries differ in a cosine's last bit (1e-16). That bit cannot change the
# rounding: every entry is at least 0.006 from a half (a test measures it).
TURN = 1024
COSINE = np.rint(4096 * np.cos(np.arange(TURN) * (2 * np.pi / TURN))).astype(np.int32)

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def cosine_sine(angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cosine and sine in 1/4096, of angles in 1/1024 of a turn."""
    return COSINE[angle % TURN], COSINE[(angle - TURN // 4) % TURN]


def mixed(word: np.ndarray) -> np.ndarray:
    """SplitMix64's finaliser: 64 well-mixed bits for each 64-bit word.

    Source: Steele et al. 2014, "Fast splittable pseudorandom number generators".
    """
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


def below(words: np.ndarray, values: int) -> np.ndarray:
    """Integers in [0, values) from 64 random bits each."""
    return (((words >> np.uint64(32)) * np.uint64(values)) >> np.uint64(32)).astype(np.int32)


def between(points: np.ndarray, places: np.ndarray, step: int) -> np.ndarray:
    """Planes of integers, linear between `points` (n, rows, columns) at distance `step`; `places` are of both axes."""
    first, share = places // step, places % step
    rows = points[:, first] * (step - share)[:, None] + points[:, first + 1] * share[:, None]
    return (rows[:, :, first] * (step - share) + rows[:, :, first + 1] * share) // step**2


class Draws:
    """Random streams of some rows. A draw depends on the key, the row, and the number of earlier draws."""

    def __init__(self, key: int, rows: np.ndarray) -> None:
        start = np.array([key], np.uint64)  # an array may overflow silently, as intended; a scalar would warn
        self.rows = mixed(start + GOLDEN * (rows.astype(np.uint64) + np.uint64(1)))  # (n,)
        self.drawn = 0

    def words(self, count: int) -> np.ndarray:
        """Draws 64 random bits `count` times per row: (n, count)."""
        numbers = np.arange(self.drawn + 1, self.drawn + 1 + count, dtype=np.uint64)
        self.drawn += count
        return mixed(self.rows[:, None] + GOLDEN * numbers)

    def integers(self, low: int, high: int) -> np.ndarray:
        """Draws one integer in [low, high) per row, of shape (n, 1, 1) to broadcast with planes of pixels."""
        return (below(self.words(1), high - low) + np.int32(low))[:, :, None]
